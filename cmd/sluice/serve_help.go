package main

const serveHelp = `Serve limits requests in two ways: as a reverse proxy in front of a program
(--upstream), and as a decision service for programs that ask (--api). One
process can do both. Both use the same rules and the same quota.

Proxy. Each response reports the limits in the fields RateLimit-Policy and
RateLimit. A denied request gets 429, Retry-After and a problem document; the
upstream does not see it. Bodies are streamed. A WebSocket connection counts as
one request; other protocol upgrades are not passed on. The proxy speaks
HTTP/1.1 and HTTP/2 without TLS. For https, put a proxy that terminates TLS in
front of it, and trust that proxy: in --trust, or in trusted in the file of
--config.

Slow clients. A denied request is answered at once, without waiting for its
body, and then its connection closes. The bodies of other requests must arrive
at --min-body-rate or faster. A client that falls behind that rate by more than
--body-grace gets 408. The total time of an upload is not limited. Over HTTP/2
the rate is checked only until the response begins. Bidirectional streams may
pause after that. If clients pause before, as some gRPC clients do, set
--min-body-rate 0. The upstream may pause while it sends a response, such as
server-sent events. The client must read: if it reads no byte of a response for
10 times --client-timeout, the connection closes. WebSockets may pause in both
directions. Request headers must arrive within 10 seconds. When
--max-connections are open, sluice closes idle connections, and new connections
wait in the queue of the operating system. A connection needs two open files
(ulimit -n).

Addresses. By default sluice listens on the loopback address only; --listen
changes that. Behind your own proxy or load balancer, every request comes from
the address of that proxy. Name it in --trust, or in trusted in the file of
--config; otherwise all clients share one limit. X-Forwarded-For is used only if
it comes from a trusted proxy. If a peer is not trusted, sluice removes these
headers from its requests: X-Forwarded-For, X-Real-IP and similar headers. With
them, the upstream could mistake one client for another. It also removes
X-Original-URL, X-Rewrite-URL, X-HTTP-Method-Override and similar headers. With
them, the upstream could use another path or method.

API. Programs ask for decisions with POST /v1/allow. There are also /v1/peek,
/v1/refund, /v1/charge and /v1/reset. /openapi.yaml describes them. The keys are

  rule by ip        203.0.113.7
  rule by ip+path   "203.0.113.7" "/login"    with the quotation marks

With such a key, programs can read, refund and reset what the proxy counted. The
API also serves

  /livez         200 while the process serves; /livez and /readyz need no token
  /readyz        200 if requests are answered as configured, else 503
  /metrics       for Prometheus; has no keys
  /debug/denied  the keys denied most; answers this machine only, because keys
                 identify clients

Anyone who can reach --api can reset limits. Without --token-file, --api must be
a loopback address or a unix socket (mode 0660). With --token-file, callers must
send "Authorization: Bearer TOKEN". The token is not encrypted:
across a network that you do not trust, put a TLS proxy in front of the API.
Requests from web pages are refused. With --upstream, there is no API unless
--api is given.

Stores.

  --store memory:        for one process; its state is lost when the process ends
          sqlite:FILE    shared by the processes of one machine; survives
                         restarts. Created with the mode 0600, because it
                         contains keys
          postgres://... and redis://...  shared by processes on many machines

Without --store, sluice reads the address from the environment variable
SLUICE_STORE. Everybody who can list processes, for instance with ps, can read a
password in a flag. Logs and errors show the address without its password.

Failures. A failed store is not a denial.

  --on-failure closed  (default) answers 503, so your program is down while the
                       store is down
               open    allows all requests, without limits
               local   each process limits in its own memory until the store is
                       back, starting with full quotas

A decision fails after --decision-timeout. When the store has failed for
--circuit-open-after, the circuit breaker opens: decisions then fail at once,
and one probe at a time, at most ten a second, tests the store in the
background. The first probe that succeeds lets decisions use the store again.
If the first decision after that fails, the breaker opens again at once.
--circuit-open-after 0s turns the breaker off.

Denial cache. For up to --denial-cache-ttl, sluice denies a denied key again
without asking the store. If another process resets or refunds the key, requests
may be denied for that long. After a reset or refund through the API, requests
at the proxy of the same process may be denied for that long too; decisions
through the API are current. --denial-cache-ttl 0s caches nothing. A request is
never allowed from the cache.

Start. With --on-failure open or local, sluice starts even if the store is
unavailable, logs that, and uses the store as soon as it is available. /readyz
answers 200. With closed, sluice exits with status 1 if the store is unavailable
at the start, so that an orchestrator starts it again. If the store fails later,
/readyz answers 503.

Reload. SIGHUP reads --config again. If the file has an error, the old rules
stay in force, and the log has the reason. Quota that was used stays used,
because states are stored under the names of the rules. A rule that changes its
algorithm needs a new name. If the store still holds a rule's state under
another algorithm, sluice refuses to start and to reload. The rule of --limit is
always named default. To change its algorithm, use another --namespace.

Shutdown. After SIGTERM, /readyz answers 503 at once, and sluice keeps serving
for --shutdown-delay, so that load balancers can send requests elsewhere. Then
the listeners close. The process ends when all requests in flight have ended, or
after --drain. Let your orchestrator wait longer than --shutdown-delay plus
--drain: by default Kubernetes kills after 30 seconds, docker stop after 10.
SIGINT skips the delay. A second signal ends the process at once.

Unverified keys. sluice does not check passwords: the user of --by user is the
name in Authorization: Basic. Clients choose their headers and cookies freely.
Limit by user, header or cookie only if something checks them, or add a rule by
ip. Requests without them are limited by ip, under the key ip:203.0.113.7. To
choose otherwise, set missing in a limits.yaml; see sluice check --help. A
request that the upstream fails to answer (502, 504) is not refunded.

Logs have no line for each request, no keys, no passwords and nothing that the
upstream sent. At most once a minute, a warning names a peer that is not trusted
and sent X-Forwarded-For, or a trusted peer that sent no address in it.

Exit status: 0 on success; 1 if sluice could not start or serve, or if requests
were cut off; 2 if the command line is wrong.`

const serveExamples = `  sluice serve --limit "gcra 100/m burst=20" --by ip --upstream http://localhost:3000
  sluice serve --config limits.yaml --upstream http://localhost:3000 --listen :8080 --store sqlite:limits.db
  sluice serve --config limits.yaml --api unix:/tmp/sluice.sock --store redis://localhost:6379
  curl --unix-socket /tmp/sluice.sock -d '{"key":"user:42","cost":3,"limit":"api"}' http://sluice/v1/allow`
