# The box of docs/a10g.md as an image: generates suites, exports nothing, compiles nothing. Its pip line is resolved by
# tests/resolve.py; the image was never built. The digest is that of the tag 12.8.1-base-ubuntu24.04.
FROM nvidia/cuda:12.8.1-base-ubuntu24.04@sha256:133c78a0575303be34164d0b90137a042172bdf60696af01a3c424ab402d86e2

SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# hadolint ignore=DL3008
RUN apt-get update && \
    apt-get install --yes --no-install-recommends python3.12 python3.12-venv && \
    rm -rf /var/lib/apt/lists/*

ENV PATH=/opt/counterfactory/bin:$PATH
RUN python3.12 -m venv /opt/counterfactory
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY engine engine
COPY export export
COPY kernels kernels
COPY requirements requirements
RUN pip install --no-cache-dir -r requirements/a10g.txt

# Not root; what is mounted has to be this user's: docker run --user "$(id -u)" makes it yours.
RUN useradd --create-home counterfactory
ENV HOME=/home/counterfactory
RUN chmod 777 /home/counterfactory
USER counterfactory
WORKDIR /work
ENTRYPOINT ["counterfactory"]
CMD ["doctor", "--profile", "a10g"]
