ARG BASE=python:3.13-slim@sha256:9d2e5553305c7c7b0097999bb17187c69b921ccd6bc9d40e4bb5ebe652c00285

FROM ${BASE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
COPY requirements/build.txt requirements/run.txt requirements/
RUN python -m venv /opt/build && python -m venv --without-pip /opt/ballast
RUN /opt/build/bin/python -m pip install --require-hashes --only-binary :all: -r requirements/build.txt \
 && /opt/build/bin/python -m pip --python /opt/ballast/bin/python install --require-hashes --only-binary :all: -r requirements/run.txt
COPY pyproject.toml README.md LICENSE ./
COPY daemon daemon
RUN /opt/build/bin/python -m pip wheel --no-deps --no-build-isolation --wheel-dir dist . \
 && /opt/build/bin/python -m pip --python /opt/ballast/bin/python install --no-deps --no-index dist/*.whl

FROM ${BASE}
ARG VERSION=0.3.0-dev
ARG REVISION=unknown
ARG SOURCE=https://github.com/kube-ballast/ballast
LABEL org.opencontainers.image.title="ballast" \
      org.opencontainers.image.description="Knows how loaded every Kubernetes node really is and tells the scheduler" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
ENV PATH=/opt/ballast/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    OPENBLAS_NUM_THREADS=1
COPY --from=build /opt/ballast /opt/ballast
USER 65532:65532
WORKDIR /tmp
EXPOSE 2020
ENTRYPOINT ["/opt/ballast/bin/ballast"]
CMD ["run"]
