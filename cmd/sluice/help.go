package main

const replayHelp = `Replay reads access logs and runs each request through rate limiting policies,
side by side. It reports which clients each policy would have denied. Nothing is
limited. The decisions come from the same code that decides in a limiter.

Log formats: common and combined, each also with a virtual host in front, and
JSON lines. Files may be plain or gzip. Replay detects format and compression
itself. Several files are merged by time. - is standard input. Without a FILE,
replay reads the bundled sample log.

Lines that cannot be parsed as requests are counted and skipped. If more than
half of the lines are skipped, replay fails. A line more than --reorder older
than the newest line so far is late. Replay gives it the time of that newest
line. If more than half of the lines are late, replay fails too. One timestamp
in the future makes all lines after it late. A gzip file that is cut short is
replayed up to the cut, and the report names the file.

The virtual host is a name, with or without a port. If a log has a list of
addresses in place of the client's address, as from X-Forwarded-For, replay
takes the last address. The proxy nearest to the server wrote that address; the
client may have forged those before it. With --config, replay skips the
addresses that the file trusts, as a server does. If two addresses are separated
by a space only, the first is the client and the second is its proxy. Do not log
"$host $remote_addr": a client that requests http://6.6.6.1 would be taken for
6.6.6.1. Log $host:$server_port, or log $remote_addr first.

A policy is ALGORITHM LIMIT [option=value ...]:

  gcra          100/m  burst=N
  tokenbucket   100/m  burst=N  refill=continuous|interval
  fixedwindow   100/m  align=first|clock  offset=DURATION (with align=clock)
  movingwindow  100/m  slots=N  trailing=weighted|whole
  all(gcra 10/s; gcra 100/m)    allows what both allow

LIMIT is COUNT/PERIOD, such as 10/s, 100/min or 5/250ms. gcra is the generic
cell rate algorithm. If an option has two values, the first is the default:

  burst=N     how many units a key can use at once; default COUNT
  refill=     continuous: units come back one by one; interval: COUNT units come
              back at the end of each PERIOD
  align=      first: the first request of a key starts its window; clock: the
              windows of all keys start at multiples of PERIOD in UTC
  offset=     moves the windows of align=clock, such as offset=15m; default 0s
  slots=N     in how many slots the window is divided; default 1
  trailing=   how the units of the slot that the window is leaving count:
              weighted: in proportion to the part that is still in the window;
              whole: all of them
  cost=N      how many units one request costs; default 1; with each algorithm

In all(...), write cost= into each part, as in
all(gcra 10/s cost=2; gcra 100/m cost=2). Without -p, replay uses
` + "\n  %s\n" + `
With --config, replay uses the rules of a limits.yaml, the same file that sluice
serve reads; see sluice check --help. The rules decide together: a request is
allowed if every rule that applies to it allows it. Only then does it cost
units, in each of them. The report shows the verdicts of each rule, by the
rule's own key. A rule in shadow mode denies nothing. Keys are those of a
server, not those of --by: an IPv6 client is its /64, and a path is decoded and
cleaned. If a request lacks the user, header or cookie of a rule, the rule's
setting missing: decides. Logs do not have sizes of request bodies, headers or
cookies. So replay refuses a rule with cost: bytes. It refuses rules by header
or cookie unless --key-field names the JSON member that has the header or
cookie.

Without --config: if --by has user or key and a request has none, it is limited
by its address, as in a server. Its key is then ip:ADDRESS.

The member that --key-field names may be a list of strings, as Caddy logs
headers: request.headers.X-Key. Replay joins them with commas into one key. A
server uses the first only.

A FILE that begins with a policy line is a trace, such as

  policy gcra 10/s burst=3
  #at    key cost    verdict left retry reset
  @0s    a   1    -> ok      2    0s    100ms

Each line that begins with @ is a request: its time, its key and its cost. After
-> are the expected verdict, units left, wait until a retry, and time until the
whole quota is available again. Replay runs a trace as written and prints one
column of results for each policy. -p replaces the policies of the trace.
--check prints nothing but the differences between the results and those written
in the trace. The other flags do not work with traces.

--json prints one object. Its members will stay; new members may be added.
Durations are written like "1m0s". --json can be combined with --out.

  {"lines":N, "skipped":N, "reordered":N, "late":N, "disagreements":N,
   "policies":[{"policy":SPEC, "requests":N, "allowed":N, "denied":N,
                "keys":N, "keys_denied":N,
                "worst":{"interval":DURATION, "admitted":UNITS, "bound":UNITS},
                "longest_wait":DURATION, "never":N,
                "top_denied":[{"key":KEY, "denied":N}]}],
   "damaged":[{"file":NAME, "problem":TEXT}], "missing":{FIELD:N}}

With --config the object is

  {"lines":N, "skipped":N, "reordered":N, "late":N, "proxied":N,
   "together":{"requests":N, "allowed":N, "denied":N, "longest_wait":DURATION,
               "never":N},
   "rules":[{"rule":NAME, "by":[FIELD], "cost":N, "shadow":BOOL, "alone":N,
             ... and the members of a policy ...}],
   "damaged":[...], "missing":{...}}

  disagreements  requests that some policies allow and others deny
  keys_denied    keys that were denied at least once
  worst          admitted: the most units that any key got in one period of the
                 limit; bound: the most units that the policy can admit for a key
                 in one period. For all(...), interval is the period of the first
                 part, and the member "part" has that part's SPEC. If the parts of
                 all(...) differ in cost, admitted and bound count requests, not
                 units.
  longest_wait   the longest Retry-After of a denied request
  never          requests that will be denied however long the client waits: the
                 cost exceeds the capacity, or the rule has missing: deny
  proxied        requests logged with the address of a trusted proxy in place of
                 the client's
  alone          requests that this rule denied and no other rule did. Rules in
                 shadow mode have 0 and are not counted as another rule.
  damaged        gzip files that are cut short
  missing        for each field in --by or in a rule (named as in --by): the number
                 of requests that lack it

Exit status: 0 on success; 1 if the run failed, was interrupted, or --check
found a difference; 2 if the command line is wrong (nothing was replayed then).`

const checkHelp = `Check reads rule files (limits.yaml) and explains each rule: what it limits, its
capacity, its rate, and the most that it admits for one key in any second,
minute, hour and day.

If a file has errors, check prints all of them, each with its line, its field
and the accepted values. - is standard input. A warning is not an error; for
instance, check warns if rules are by ip and no proxy is trusted.

  # Addresses of your own proxies, whose X-Forwarded-For is trusted; [] if clients
  # connect directly.
  trusted: [10.0.0.0/24]
  forwarded: false          # true: the proxies write Forwarded (RFC 7239) instead
  ipv6_bits: 64             # prefix length that identifies an IPv6 client

  rules:
    - name: client          # letters, digits, - and _
      policy: gcra 100/m burst=20
      by: ip                # ip, user, method, path, host, header:NAME, cookie:NAME;
                            # several as a list or joined by +. With everything, or
                            # without by, all requests share one limit
      missing: ip           # if a request has no such user, header or cookie: limit it
                            # by ip (default), let all such requests share one limit
                            # (share), do not apply this rule (skip), or deny (deny)
    - name: login
      policy: fixedwindow 5/h
      by: [ip, path]
      methods: [POST]       # apply to these methods only. Letter case is ignored,
                            # because some servers accept post as POST. GET includes
                            # HEAD
      paths: [/login, /account/*]
      cost: 2               # units for each request, or bytes: the size of its body
      shadow: true          # decide and report, but do not enforce

Under missing: ip, a request without the header gets the key ip:203.0.113.7. No
header can forge that key: a value that begins with ip: or a quotation mark is
quoted in the key. A request denied by missing: deny gets 429 without
Retry-After, and costs nothing under any rule.

Write policies as in sluice replay --help, but without cost=; use the rule's
field cost. A request is allowed if every rule that applies to it allows it.
Only then does it cost units, in each of them.

The path /account/* matches /account and all paths below it. Paths are compared
decoded and cleaned, without the query and without parameters after a semicolon:
//login, /x/../login/ and /login;a=1 match /login. Servers disagree about paths
that have both ; and .., or %2F or %2E, such as /account/..%2F1. For these,
sluice tries each interpretation, and the rule applies if one matches. /Login
and \login do not match /login. If your server treats them as /login, they
bypass the rule: let the server refuse them, or limit all paths together.

Exit status: 0 on success; 1 if a file has errors; 2 if the command line is
wrong.`

const replayExamples = `  sluice replay
  sluice replay -p "gcra 10/m burst=5" -p "fixedwindow 10/m" access.log access.log.1.gz
  zcat *.gz | sluice replay --by path --json -
  sluice replay --config limits.yaml --out limits.svg access.log
  sluice replay --check burst_at_edge.trace`
