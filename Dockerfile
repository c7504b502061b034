# The agent in a container.
#
#   docker build -t oddflow-agent .
#   docker buildx build --platform linux/amd64,linux/arm64 -t oddflow-agent .      for several architectures
#   docker run --rm --network host --read-only --cap-drop ALL --cap-add NET_RAW \
#     -v "$PWD/agent.yaml:/etc/oddflow/agent.yaml:ro" -v "$PWD/home.oddflow:/etc/oddflow/home.oddflow:ro" \
#     -v oddflow:/var/lib/oddflow-agent oddflow-agent
#
# with, in agent.yaml:
#
#   interface: eth0
#   model: /etc/oddflow/home.oddflow
#   eve: /var/lib/oddflow-agent/eve.json
#   state: /var/lib/oddflow-agent
#   listen: 127.0.0.1:9477
#
# --network host is what lets it see the network's own packets. The user is not root; NET_RAW, without which tcpdump
# cannot start, is a capability of the file tcpdump alone. So --security-opt no-new-privileges cannot be together
# with an interface; with "read: -" and a pipe it can, and NET_RAW goes too. Nothing is written but the volume.

# Node 24 is maintained until April 2028. A tag may move: "npm run release:rehearse" writes the digest that it has then
# behind it, which a release commits.
ARG NODE=node:24-slim

# the program is the same for every architecture, so it is built on that of the builder
FROM --platform=$BUILDPLATFORM ${NODE} AS build
WORKDIR /build
RUN npm install --global pnpm@10.34.9
COPY package.json pnpm-lock.yaml pnpm-workspace.yaml tsconfig.base.json ./
COPY tools/workspace/ tools/workspace/
COPY packages/ packages/
COPY apps/agent/ apps/agent/
# the program is a bundle: what it needs from npm is in it, by the lock file
RUN pnpm install --frozen-lockfile --ignore-scripts --filter . --filter oddflow-agent... \
 && cd apps/agent && pnpm exec tsc -b && node ../../tools/workspace/bundle-program.mjs main page training/training-child

FROM ${NODE}
# NET_RAW as a capability of the file, for members of the group of the agent and nobody else
RUN apt-get update \
 && apt-get install --yes --no-install-recommends tcpdump libcap2-bin \
 && groupadd --system --gid 947 oddflow \
 && useradd --system --uid 947 --gid oddflow --no-create-home --shell /usr/sbin/nologin oddflow \
 && chgrp oddflow /usr/bin/tcpdump \
 && chmod 0750 /usr/bin/tcpdump \
 && setcap cap_net_raw+ep /usr/bin/tcpdump \
 && apt-get purge --yes --auto-remove libcap2-bin \
 && rm -rf /var/lib/apt/lists/* /usr/local/lib/node_modules/npm /usr/local/bin/npm /usr/local/bin/npx \
 && install -d -o oddflow -g oddflow -m 0700 /var/lib/oddflow-agent
COPY --from=build /build/apps/agent/package.json /opt/oddflow-agent/
COPY --from=build /build/apps/agent/dist /opt/oddflow-agent/dist
USER oddflow
WORKDIR /var/lib/oddflow-agent
VOLUME /var/lib/oddflow-agent
STOPSIGNAL SIGTERM
# well: alerts can be kept and delivered. It asks at `listen`, which the configuration must have: without one start with --no-healthcheck.
# Another port is given by ODDFLOW_HEALTH.
ENV ODDFLOW_HEALTH=http://127.0.0.1:9477/healthz
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s \
  CMD ["node", "-e", "fetch(process.env.ODDFLOW_HEALTH).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["node", "/opt/oddflow-agent/dist/main.js"]
CMD ["run", "-c", "/etc/oddflow/agent.yaml"]
