"""What `import counterfactory` and the command line call: verbs that take keywords and give what was made."""
