// Package keys has the commands sluice keys and sluice reset, which list and reset the keys of a rule on a store.
package keys

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
	"github.com/sluice-go/sluice/cmd/sluice/internal/rules"
	"github.com/sluice-go/sluice/cmd/sluice/internal/stores"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/errtext"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/redis"
)

// callTime is how long one call of the store may take.
const callTime = 10 * time.Second

// rule is a rule on a store.
type rule struct {
	config, spec           string
	name, namespace, table string

	flags  *pflag.FlagSet
	from   string // the flag or variable of the address
	store  *stores.Store
	policy sluice.Policy
	cost   int64  // of one request, in units
	prefix string // the beginning of its stored keys, after the group
}

func (r *rule) define(flags *pflag.FlagSet) {
	flags.String("store", "", "the `URL` of the store: sqlite:FILE, postgres://... or redis://...; without this flag, the URL in the environment variable "+stores.Variable)
	flags.StringVar(&r.config, "config", "", "take the rule from this `FILE`, a limits.yaml")
	flags.StringVarP(&r.spec, "policy", "p", "", "instead of --config, the `POLICY` of the rule, such as \"gcra 100/m burst=20\"")
	flags.StringVar(&r.name, "rule", "", "the `NAME` of the rule; not needed if --config has only one rule, or if a program made the limiter by sluice.New(store, POLICY)")
	flags.StringVar(&r.namespace, "namespace", "", "the `NAME` in --namespace of sluice serve, or in Options.Namespace of a program")
	flags.StringVar(&r.table, "table", "", "the `NAME` in Options.Table of the store of a program, or in Options.Prefix if it is Redis")
	r.flags = flags
}

// open checks the flags and opens the store. The caller must close it.
func (r *rule) open(ctx context.Context) (err error) {
	switch {
	case r.config == "" && r.spec == "":
		return cli.Usagef("no rule; want --config limits.yaml, or --policy \"gcra 100/m burst=20\" and the name of the rule in --rule")
	case r.config != "" && r.spec != "":
		return cli.Usagef("--config and --policy exclude each other; leave one out")
	}
	var address string
	if address, r.from, err = stores.FromFlag(r.flags); err != nil {
		return err
	}
	if strings.HasPrefix(address, "memory:") {
		return cli.Usagef("%s memory: is the memory of one process, which no other can read; want sqlite:FILE, postgres://... or redis://...", r.from)
	}
	if r.config != "" {
		err = r.fromFile(ctx)
	} else {
		err = r.fromSpec()
	}
	if err != nil {
		return err
	}
	r.prefix = driver.Rule(r.namespace, r.name, compose.Kind(r.policy))
	r.store, err = stores.Open(address, stores.Options{NoFunctions: true, Existing: true, Table: r.table})
	if err != nil {
		return fmt.Errorf("%s %w", r.from, err)
	}
	if err := r.probe(ctx); err != nil {
		r.store.Close()
		return r.failure(ctx, err)
	}
	return nil
}

func (r *rule) fromFile(ctx context.Context) error {
	file, err := rules.StatAndRead(ctx, r.config)
	if err != nil {
		return err
	}
	var names []string
	for i := range file.Rules {
		if own := &file.Rules[i]; own.Name == r.name || r.name == "" && len(file.Rules) == 1 {
			r.name, r.policy, r.cost = own.Name, own.Policy, max(own.Cost.Units, 1)
			return nil
		}
		names = append(names, file.Rules[i].Name)
	}
	if r.name == "" {
		return cli.Usagef("%s has %d rules; choose one by --rule: %s", r.config, len(names), readable.List(names, ", "))
	}
	return cli.Usagef("--rule %s: %s has no such rule; want %s", errtext.Quote(r.name), r.config, readable.List(names, ", "))
}

func (r *rule) fromSpec() (err error) {
	if r.policy, err = compose.ParsePolicy(r.spec); err != nil {
		return cli.PolicyError(err)
	}
	if r.cost = 1; r.name == "" {
		r.name = r.policy.String() // as sluice.PerKey does
	}
	return nil
}

// probe checks that the store answers. It loads keys of two slots, because a node of a Redis Cluster refuses that.
func (r *rule) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	_, _, err := r.store.Load(ctx, "{a}", "{b}")
	if errors.Is(err, redis.ErrCrossSlot) {
		return errors.New("the server is a node of a Redis Cluster, which has only a part of the keys; in a program, use sluice.Limiter.Clear and ResetRule")
	}
	return err
}

// failure returns the error of the command for an error of the store.
func (r *rule) failure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	text := strings.Replace(errorText(err), "call Store.Migrate first", "check --table and the address", 1)
	var of *storage.KeyError
	if errors.As(err, &of) {
		text = fmt.Sprintf("key %s: %s", r.formatKey(of.Key), text)
	}
	return fmt.Errorf("%s %s: %s", r.from, r.store.Address, text)
}

// errorText leaves out that nothing was applied, because the commands print what they have reset.
func errorText(err error) string {
	return strings.TrimPrefix(stores.ErrorText(err), storage.ErrNotApplied.Error()+": ")
}

// noRecord returns the error for keys without a record; nil if there are none.
func (r *rule) noRecord(keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	return fmt.Errorf("rule %s has no record of %s on %s; the key may have used nothing, or check the key, --rule, --namespace, --table and the algorithm",
		printable(r.name), readable.List(keys, ", "), r.store.Address)
}

// noKeys is what the commands print about a rule without keys.
func (r *rule) noKeys() string {
	return fmt.Sprintf("rule %s: no key has a record on %s; if you expected some, check --rule, --namespace, --table and the algorithm", printable(r.name), r.store.Address)
}
