# An image of crawld, built from a checkout: docker build -t crawld .
# compose.yaml runs it with its settings and pages; docs/fleet/kubernetes.yaml runs workers of a fleet from it.
FROM python:3.12-slim AS build
COPY . /src
# The versions that the tests pass with.
RUN python3 -m venv /opt/crawld && /opt/crawld/bin/pip install --no-cache-dir -c /src/.ci/constraints.txt '/src[postgres,notify,warc]'

FROM python:3.12-slim
COPY --from=build /opt/crawld /opt/crawld
# A user without rights; /data is writable to it and holds the database, the token and the control socket.
RUN groupadd --gid 65532 crawld && useradd --uid 65532 --gid 65532 --no-create-home --home-dir /data crawld && install -d -o crawld -g crawld -m 0700 /data
ENV PATH=/opt/crawld/bin:$PATH CRAWLD_DATABASE=sqlite:////data/crawld.db
USER 65532:65532
WORKDIR /data
VOLUME /data
EXPOSE 8642
# /healthz says whether slots are served and the store writes; it asks for no token.
HEALTHCHECK --start-period=60s CMD ["python3", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8642/healthz', timeout=5)"]
ENTRYPOINT ["crawld"]
CMD ["run", "--config", "/etc/crawld/config.yaml"]
