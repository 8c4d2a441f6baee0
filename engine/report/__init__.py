"""What a person looks at: an album of sources and their variants, as a contact sheet and as a web page."""
