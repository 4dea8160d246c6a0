package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/clitest"
)

// twoClients has two lines of one client and one of another.
var twoClients = []string{
	`203.0.113.7 - - [29/Mar/2026:00:59:50 +0000] "GET / HTTP/1.1" 200 12`,
	`198.51.100.4 - - [29/Mar/2026:00:59:51 +0000] "GET / HTTP/1.1" 200 12`,
	`203.0.113.7 - - [29/Mar/2026:00:59:52 +0000] "GET / HTTP/1.1" 200 12`,
}

const rulesByIP = "trusted: []\nrules: [{name: client, policy: gcra 1/m, by: ip}]\n"

// commandsByIP returns every command line that limits the requests of a log by their clients.
func commandsByIP(t *testing.T, log string) map[string][]string {
	rules := clitest.Write(t, "limits.yaml", rulesByIP)
	stricter := clitest.Write(t, "limits.new.yaml", strings.Replace(rulesByIP, "1/m", "1/h", 1))
	return map[string][]string{
		"replay":           {"replay", "-p", "gcra 1/m", "--by", "ip", log},
		"replay --config":  {"replay", "--config", rules, log},
		"suggest":          {"suggest", log},
		"suggest --config": {"suggest", "--config", rules, log},
		"plan":             {"plan", rules, stricter, log},
	}
}

func TestClientsThatAreNoAddressAreCounted(t *testing.T) {
	log := clitest.Write(t, "access.log", strings.Join(twoClients, "\n")+"\n"+strings.Replace(twoClients[2], "203.0.113.7", "client.example.net", 1))
	for name, args := range commandsByIP(t, log) {
		require.Contains(t, clitest.Ok(t, "", args...), `1 of 4 requests with a client that is no address; the first is `+log+
			`:4: the client "client.example.net" is no address: "client.example.net - - [29/Mar/2026:00:59:52 +0000] \"GET /`, name)
		require.Contains(t, clitest.Ok(t, "", append(args, "--json")...), `"no_address": 1`, name)
	}
	require.Contains(t, clitest.Ok(t, "", append(commandsByIP(t, log)["plan"], "--markdown")...), "which has problems")
	require.NotContains(t, clitest.Ok(t, "", "replay", "--by", "path", log), "no address", "no key has a client")
}

func TestMostClientsMustBeAddresses(t *testing.T) {
	for name, line := range map[string]string{
		"an unknown prefix": "web-1 nginx" + strings.TrimPrefix(twoClients[0], "203.0.113.7 -"),
		"grep":              "access.log.1:" + twoClients[0],
		"a host name":       strings.Replace(twoClients[0], "203.0.113.7", "client.example.net", 1),
		"JSON":              `{"time":"2026-03-29T00:59:50Z","client":"web-1","status":200}`,
	} {
		log := clitest.Write(t, "access.log", strings.Repeat(line+"\n", 3)+strings.Join(twoClients[:2], "\n"))
		for command, args := range commandsByIP(t, log) {
			exitCode, out, errs := clitest.Execute(t, "", args...)
			require.NotZero(t, exitCode, command)
			require.Empty(t, out)
			require.Contains(t, errs, "3 of 5 requests have a client that is no address; the first is "+log+":1: the client ", "%s: %s", name, command)
			require.Contains(t, errs, "if the lines have a prefix, remove it; if the server logs host names, configure it to log addresses (Apache: HostnameLookups Off")
			require.Equal(t, name == "JSON", strings.Contains(errs, "--key-field"), command)
		}
		clitest.Ok(t, "", "replay", "--by", "path", log)
	}
	log := clitest.Write(t, "access.log", strings.Repeat(`{"time":"2026-03-29T00:59:50Z","client":"web-1","status":200}`+"\n", 3))
	require.NotContains(t, clitest.Ok(t, "", "replay", "--key-field", "client", log), "no address")
	require.Contains(t, clitest.Ok(t, "", "replay", "--by", "user", log), "3 of 3 requests with a client that is no address", "it replaces the user")
}
