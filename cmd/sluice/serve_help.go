package main

const serveHelp = `Serve stands in front of a program and limits the requests on their way to it, or
answers programs that ask whether something is allowed, or both. Both go by the
same rules and share what is used.

In front of a program (--upstream) it is a reverse proxy. Each response tells the
limits in the fields RateLimit-Policy and RateLimit; a denied request gets 429,
Retry-After and a problem document, and does not reach the program. Bodies pass
through as they come, and so do WebSockets, each of which counts once; to nothing
else is a connection upgraded. It speaks HTTP/1.1 and HTTP/2 without encryption;
for https put it behind what terminates TLS, and name that in --trust.

Slow clients cannot hold it up. A denied request is answered at once, without
waiting for its content, and then its connection closes. The content of other
requests must come at --min-body-rate, on average over --body-grace, or the client
gets 408; how long an upload takes in all does not matter. Over HTTP/2 that ends
when the response begins, so streams in both directions may pause from then on.
For clients that pause before, such as some of gRPC, set --min-body-rate 0.
Downloads, events and WebSockets may pause as they like. Headers must come within
10 seconds. At --max-connections idle connections are closed, and new ones wait in
a queue of the system until there is room. Each needs two open files (ulimit -n).

It listens on this machine alone until --listen says otherwise. Behind a proxy or
load balancer of yours every request comes from that one's address: name it in
--trust, or all clients share one limit. X-Forwarded-For is believed of nobody
else. sluice removes it from requests of other peers, and X-Real-IP and other
fields by which the program would take a client for another, or its request for
one of another path or method: X-Original-URL, X-Rewrite-URL,
X-HTTP-Method-Override and the like.

Programs ask (--api) by POST /v1/allow, and /v1/peek, /v1/refund, /v1/charge and
/v1/reset; /openapi.yaml there describes it. A rule by ip has the key
203.0.113.7 here, so what the proxy counted can be looked at, given back and
reset; one by ip+path has the key "203.0.113.7" "/login", quotes and all. Beside
these are

  /livez         200 while it serves; wants no token, nor does /readyz
  /readyz        200 if requests are answered as configured, else 503
  /metrics       for Prometheus, without keys
  /debug/denied  the keys denied most: who they are, so on this machine only

Whoever reaches --api may reset limits. So it takes loopback addresses and unix
sockets, for which the mode is 0660, and any other only with --token-file; then
callers say "Authorization: Bearer TOKEN". The token travels unencrypted: across a
network you do not trust, put TLS before it. Web pages are refused. In front of a
program there is no --api until you ask for it.

  --store memory:        one process; all is forgotten when it ends
          sqlite:FILE    the processes of one machine, and restarts; the file is
                         created with the mode 0600, for it holds the keys
          postgres://... and redis://...: a fleet

Without --store the environment variable SLUICE_STORE has the address. A password
in a flag is shown to everybody who can list processes, for instance by ps. Logs
and errors show the address without its password.

A store that fails is not a denial. --on-failure closed, the default, answers 503:
your program is down while the store is. open lets everything through unlimited.
local limits in the memory of each process, from nothing used, until the store is
back. A decision fails after --decision-timeout. When the store has failed for
--circuit-open-after, the circuit breaker opens: decisions then fail at once, and
one probe at a time, at most ten a second, tests the store in the background. The
first probe that succeeds lets decisions use the store again. If that fails again,
the breaker opens at once. --circuit-open-after 0s turns the breaker off.

A denied key is denied again without asking the store, for --denial-cache-ttl at
most. If the key is reset or refunded, by another process or through --api, its
requests may be denied for that long. The --api itself notices at once what went
through it. --denial-cache-ttl 0s caches nothing. Nothing is ever allowed from the
cache.

With open and local it starts without the store, says so in the log, and takes the
store into use when it comes; /readyz says 200. With closed it could only refuse
requests: it exits with 1, so that an orchestrator starts it again, and in an
outage later on /readyz says 503.

SIGHUP reads --config again. If anything is wrong with it the old rules stay, and
the log says why. What was used stays used, because it is stored under the names
of the rules; one that changes its algorithm needs a new name. A restart is no
different on a store that outlasts it: it is refused. The rule of --limit has but
one name, default; there another --namespace begins anew.

On SIGTERM /readyz says 503 at once, and load balancers have --shutdown-delay to
send requests elsewhere. Then the listeners close, and it ends when requests in
flight have ended, or after --drain. Give it longer than the two together:
Kubernetes kills after 30 seconds, docker stop after 10. SIGINT skips the delay. A
second signal ends it at once.

Not checked here: the user of --by user is the name in Authorization: Basic, and
nobody asked for the password; headers and cookies are what clients say. Limit by
them only where something checks them, or beside a limit by ip. Requests without
them are limited by ip instead, under the key ip:203.0.113.7; for another choice,
set missing in a limits.yaml, see sluice check --help. A request that the
program does not answer (502, 504) has cost what it cost.

What is logged has no line for each request, no keys, no passwords, and nothing
that the upstream sent. A warning, at most one a minute, names the peer that sent
X-Forwarded-For and is not trusted, or is trusted and sent no address in it.

Exit status: 0; 1 if it could not start or serve, or requests were cut off; 2 for
a mistake on the command line.`

const serveExamples = `  sluice serve --limit "gcra 100/m burst=20" --by ip --upstream http://localhost:3000
  sluice serve --config limits.yaml --upstream http://localhost:3000 --listen :8080 --store sqlite:limits.db
  sluice serve --config limits.yaml --api unix:/tmp/sluice.sock --store redis://localhost:6379
  curl --unix-socket /tmp/sluice.sock -d '{"key":"user:42","cost":3,"limit":"api"}' http://sluice/v1/allow`
