# The box of docs/a10g.md as an image: generates suites, exports nothing. Linted, never built.
FROM nvidia/cuda:12.8.1-cudnn-devel-ubuntu24.04

SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# hadolint ignore=DL3008
RUN apt-get update && \
    apt-get install --yes --no-install-recommends python3 python3-venv python3-dev build-essential && \
    rm -rf /var/lib/apt/lists/*

ENV PATH=/opt/counterfactory/bin:$PATH
RUN python3 -m venv /opt/counterfactory
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY engine engine
COPY export export
COPY kernels kernels
RUN pip install --no-cache-dir '.[cuda]' && \
    pip install --no-cache-dir --no-build-isolation 'flash-attn==2.8.3'

WORKDIR /work
ENTRYPOINT ["counterfactory"]
CMD ["doctor", "--profile", "a10g"]
