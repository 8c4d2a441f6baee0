# The box of docs/a10g.md as an image: generates suites, alone or as a worker of Ray; exports and compiles nothing. Its
# lines are linted and resolved in CI (make lint, make resolve); the image was never built. The digest is that of the tag
# 12.8.1-base-ubuntu24.04.
FROM nvidia/cuda:12.8.1-base-ubuntu24.04@sha256:133c78a0575303be34164d0b90137a042172bdf60696af01a3c424ab402d86e2

SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# Not root; what is mounted has to be this user's: docker run --user "$(id -u)" makes it yours.
# hadolint ignore=DL3008
RUN apt-get update && \
    apt-get install --yes --no-install-recommends python3.12 python3.12-venv && \
    rm -rf /var/lib/apt/lists/* && \
    python3.12 -m venv /opt/counterfactory && \
    useradd --create-home --uid 10001 counterfactory && \
    install --directory --owner=counterfactory --mode=777 \
        /work /home/counterfactory /home/counterfactory/counterfactory-a10g

ENV PATH=/opt/counterfactory/bin:$PATH
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY engine engine
COPY export export
COPY kernels kernels
COPY requirements requirements
RUN pip install --no-cache-dir -r requirements/a10g.txt

ENV HOME=/home/counterfactory
# Weights with their plans, and suites.
VOLUME ["/home/counterfactory/counterfactory-a10g", "/work"]
USER 10001
WORKDIR /work
# Of the run that writes the suite: unhealthy where it stands still or was killed; no suite, or one that is done, is well.
ENV COUNTERFACTORY_SUITE=/work/suite
HEALTHCHECK --interval=5m --timeout=1m --start-period=10m --retries=2 \
    CMD ["/bin/bash", "-c", "counterfactory status \"$COUNTERFACTORY_SUITE\" > /dev/null 2>&1; test $? -ne 4"]
ENTRYPOINT ["counterfactory"]
CMD ["doctor", "--profile", "a10g"]
