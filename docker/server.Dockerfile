# The server with the agent of its own host. Built from the root of the tree:
#
#   docker build -f docker/server.Dockerfile -t aliquot .
#   docker run --network host --init -v aliquot:/var/lib/aliquot aliquot
#
# Without accounts the server answers on loopback only, so it needs the host's network to be reached. Jobs run inside the
# container and end with it; add `--gpus all` for real GPUs.
FROM python:3.11-slim-bookworm

WORKDIR /opt/aliquot
COPY pyproject.toml uv.lock README.md LICENSE ./
COPY schema schema
COPY server server

RUN python -m venv .venv
RUN .venv/bin/python -m pip install --no-cache-dir 'uv>=0.9'
RUN .venv/bin/python -m uv sync --frozen --no-dev --no-cache --compile-bytecode

VOLUME /var/lib/aliquot
ENTRYPOINT ["/opt/aliquot/.venv/bin/aliquot"]
CMD ["serve"]
