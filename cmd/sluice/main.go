// Command sluice serves rate limits over HTTP, checks rule files, replays access logs through rate
// limits, shows what a change of a rule file does, suggests limits, and lists and resets keys.
//
//	sluice replay -p "gcra 10/m burst=5" -p "fixedwindow 10/m" --by ip access.log
//	sluice check limits.yaml
//	sluice replay --config limits.yaml access.log
//	sluice plan limits.old.yaml limits.yaml access.log
//	sluice suggest --untouched 99.9% access.log
//	sluice serve --config limits.yaml --upstream http://localhost:3000
//	sluice keys --store redis://localhost:6379 --config limits.yaml --rule client
//
// See "sluice --help".
package main

import (
	_ "time/tzdata" // for calendar policies: a container from scratch, and Windows, have no time zones

	"github.com/sluice-go/sluice/cmd/sluice/internal/check"
	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/compare"
	"github.com/sluice-go/sluice/cmd/sluice/internal/keys"
	"github.com/sluice-go/sluice/cmd/sluice/internal/plan"
	"github.com/sluice-go/sluice/cmd/sluice/internal/replay"
	"github.com/sluice-go/sluice/cmd/sluice/internal/serve"
	"github.com/sluice-go/sluice/cmd/sluice/internal/suggest"
)

func main() { cli.Main(commands...) }

// commands are in the order of the help.
var commands = []cli.NewCommand{compare.Command, replay.Command, plan.Command, suggest.Command, check.Command, serve.Command, keys.Command, keys.ResetCommand}
