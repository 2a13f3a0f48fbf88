# One image for every role: deal, agent, eavesdrop, collect, audit, verify. docs/containers.md
#
#   docker build -t sottovoce .                              packages come from the registry, as requirements.lock has them
#   docker build -t sottovoce --build-arg WHEELS=wheels .    no network: they come from the folder wheels/

FROM python:3.11-slim AS build
ARG WHEELS=""
WORKDIR /build
COPY requirements.lock ${WHEELS:-requirements.lock} wheels/
RUN set -eu; \
    python -m venv --without-pip /opt/sottovoce; \
    printf '%s\n' "${WHEELS:+--no-index --find-links wheels}" >from; \
    python -m pip --python /opt/sottovoce/bin/python install --no-cache-dir $(cat from) --no-deps -r wheels/requirements.lock; \
    # numpy.testing, which scipy imports, needs one file of numpy's own tests
    cd /opt/sottovoce/lib/python3*/site-packages; \
    find . -type d -name tests -not -path ./numpy/_core/tests -prune -exec rm -rf {} +; \
    find numpy/_core/tests -type f -not -name '_natype*' -not -name '__*' -delete; \
    rm -f zstandard/_cffi*.so
COPY pyproject.toml README.md LICENSE ./
COPY topology topology
COPY coordinator_free coordinator_free
COPY node node
COPY sottovoce sottovoce
RUN python -m pip --python /opt/sottovoce/bin/python install --no-cache-dir $(cat from) --no-deps .

FROM python:3.11-slim
COPY --from=build /opt/sottovoce /opt/sottovoce
# A new volume takes owner and mode of the folder that it is mounted on.
RUN install -d -o 10001 -g 10001 -m 0700 /own /runs /parts
ENV PATH=/opt/sottovoce/bin:$PATH HOME=/tmp PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /own
HEALTHCHECK --interval=15s --timeout=10s --start-period=30s CMD ["python", "-m", "node.worlds.health", "/own"]
ENTRYPOINT ["sottovoce"]
