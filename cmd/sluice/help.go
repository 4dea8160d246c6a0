package main

const replayHelp = `Replay runs the requests of access logs through rate limiting policies, side by
side, and tells whom each of them would have hit. Nothing is limited; the same
code decides that decides in a limiter.

Logs may be in the common or combined format, with a virtual host in front, or
JSON lines, plain or gzip, found by themselves; several are merged by time; - is
standard input. Without a FILE the bundled sample log is replayed. Lines that are
no log lines, or JSON of something else than a request, are counted and skipped;
more than half of them is an error. So are more than half that come too late to be
put right: they are replayed at the latest time seen, and one stamp from the future
makes all after it late. Gzip that is cut short is replayed as far as it goes, and
told.

The virtual host is a name, with a port or without. Where the log has a list in
place of the client's address, as X-Forwarded-For is, its last address is taken:
the proxy nearest to the server wrote that one, and those before it anybody may
have made up. With --config the addresses that the file trusts are passed over, as
a server does. Of two addresses without a comma the first is the client's, and the
second that of its proxy. Beware of "$host $remote_addr": who asks for http://6.6.6.1
is taken for 6.6.6.1; log $host:$server_port, or $remote_addr first.

A policy is ALGORITHM LIMIT [option=value ...]:

  gcra          100/m  burst=N
  tokenbucket   100/m  burst=N  refill=continuous|interval
  fixedwindow   100/m  align=first|clock  offset=DURATION (with align=clock)
  movingwindow  100/m  slots=N  trailing=weighted|whole
  all(gcra 10/s; gcra 100/m)    only what both allow

LIMIT is COUNT/PERIOD, such as 10/s, 100/min or 5/250ms. Each also takes cost=N,
the units that one request takes; in all(...) its parts take it, not the whole, as
in all(gcra 10/s cost=2; gcra 100/m cost=2). Without -p logs are replayed under
` + "\n  %s\n" + `
With --config the rules of a limits.yaml are replayed, the very file that sluice
serve goes by; see sluice check --help. They decide together, as they do there: a
request is let through if every rule that is for it allows, and only then costs
under each. Of each rule its own verdicts are told, by its own key. A rule in shadow
denies nothing. Keys are those of a server, not those of --by: an IPv6 client is its
/64, and a path is decoded and cleaned. Requests without the user, header or cookie of
a rule are treated as its field missing says. What logs do not have is refused: a cost in
bytes, and headers and cookies, unless --key-field names the member of JSON lines
that has the one header or cookie of the rules.

Without --config, --by user and --by key limit requests without a user or a key by
their address, as a server does; the key is then ip:ADDRESS.

A member that --key-field names may be a list of strings, as Caddy logs headers:
request.headers.X-Key. They are then one key, with commas between, where a server
goes by the first.

A FILE that is a trace, which begins with a policy line, is run as it says, one
column of answers for each policy; -p replaces its policies, and --check compares
with the answers that stand in it, in place of printing. Of the other flags none
goes with a trace.

--json prints one object. Its members stay; others may join them. Durations are
written like "1m0s". It goes together with --out.

  {"lines":N, "skipped":N, "reordered":N, "late":N, "disagreements":N,
   "policies":[{"policy":SPEC, "requests":N, "allowed":N, "denied":N,
                "keys":N, "keys_denied":N,
                "worst":{"interval":DURATION, "admitted":UNITS, "bound":UNITS},
                "longest_wait":DURATION, "never":N,
                "top_denied":[{"key":KEY, "denied":N}]}],
   "damaged":[{"file":NAME, "problem":TEXT}], "lacking":{FIELD:N}}

With --config it is

  {"lines":N, "skipped":N, "reordered":N, "late":N, "proxied":N,
   "together":{"requests":N, "allowed":N, "denied":N, "longest_wait":DURATION,
               "never":N},
   "rules":[{"rule":NAME, "by":[FIELD], "cost":N, "shadow":BOOL, "alone":N,
             ... and what a policy has ...}],
   "damaged":[...], "lacking":{...}}

  worst is the most that one key was admitted in any one period of the limit, and
  the most it could have been; of all(...) the period is that of its first part,
  and worst has one member more, "part":SPEC of that, and counts requests in place
  of units if its parts differ in cost; never counts denials that no wait helps, by
  a cost above the capacity or by missing: deny; proxied counts requests logged with the
  address of a trusted proxy in place of the client's; alone those that were denied
  by this rule and no other, where rules in shadow do not count and have 0; damaged
  is gzip that is cut short; lacking counts the requests without a field that keys
  or rules go by, under its name in --by.

Exit status: 0; 1 if the run failed, was interrupted, or --check found a
difference; 2 for a mistake on the command line, before anything was replayed.`

const checkHelp = `Check reads files of limits, limits.yaml, and says what each of their rules means: what
it limits, how much there is at once and in the long run, and the most that it admits
for one key in any second, minute, hour and day.
Of a file with faults it tells them all, each with its line, its field and what
would be accepted. - is standard input. A warning, for instance that rules are by ip
and no proxy is trusted, is no fault.

  # Addresses of your own proxies, of which X-Forwarded-For is believed; [] if clients
  # connect directly.
  trusted: [10.0.0.0/24]
  forwarded: false          # true: they write Forwarded (RFC 7239) in its place
  ipv6_bits: 64             # how much of an IPv6 address is one client

  rules:
    - name: client          # letters, digits, - and _
      policy: gcra 100/m burst=20
      by: ip                # ip, user, method, path, host, header:NAME, cookie:NAME,
                            # several as a list or joined by +; everything, or
                            # without it: all requests share one limit
      missing: ip           # only by user, header or cookie: requests without it are
                            # limited by ip (the default), share one limit (share), are
                            # not limited by this rule (skip) or are denied (deny)
    - name: login
      policy: fixedwindow 5/h
      by: [ip, path]
      methods: [POST]       # only these requests, in any letter case: [post] means the
                            # same, and a request with the method post counts, because
                            # some servers take it for POST. GET includes HEAD
      paths: [/login, /account/*]
      cost: 2               # units for each request, or bytes: its content's length
      shadow: true          # decided and reported, never enforced

Under missing: ip the key of a request without a header is ip:203.0.113.7. No header
can forge it: a value that begins with ip: or a quotation mark is quoted in the key. A
denial by missing: deny is answered 429 without Retry-After, and pays under no rule.

Policies are those of sluice replay, see its help, but for cost=, in whose place
a rule has the field. A request is let through if every rule that is for it allows,
and then costs under each. A path ends in /* for itself and all below it; it is
compared decoded, cleaned, without its query and without what is behind a ; in it:
//login, /x/../login/ and /login;a=1 are /login. Where servers disagree, about ; and ..
and about %2F and %2E as in /account/..%2F1, a rule for any reading applies. /Login
and \login are not /login. If your server takes them for it, they are past the rule: have
it refuse them, or limit all paths together.

Exit status: 0; 1 if a file has faults; 2 for a mistake on the command line.`

const replayExamples = `  sluice replay
  sluice replay -p "gcra 10/m burst=5" -p "fixedwindow 10/m" access.log access.log.1.gz
  zcat *.gz | sluice replay --by path --json -
  sluice replay --config limits.yaml --out limits.svg access.log
  sluice replay --check burst_at_edge.trace`
