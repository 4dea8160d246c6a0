package rules

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
)

// Stat returns an error if the path cannot be a rule file. It does not read the file.
func Stat(name string) error {
	_, err := cli.StatFile(name, "a rule file such as limits.yaml", "a file in it, for instance "+filepath.Join(name, "limits.yaml"))
	return err
}

// StatAndRead reads a rule file whose path a user has just given in --config.
func StatAndRead(ctx context.Context, name string) (*config.File, error) {
	if name == "-" {
		return nil, cli.Usagef("--config -: only check and plan read rules from standard input; name a file")
	}
	if err := Stat(name); err != nil {
		return nil, err
	}
	return Read(ctx, name)
}

// Read reads a rule file, which may be a pipe.
func Read(ctx context.Context, name string) (*config.File, error) {
	return cli.Await(ctx, func() (*config.File, error) { return config.Read(name) })
}

// Each calls use for each rule file, - for standard input, with its name for messages. It prints the errors in all files,
// and then returns cli.ErrReported.
func Each(ctx context.Context, names []string, s cli.Streams, use func(i int, name string, f *config.File) error) error {
	var reported error
	for i, name := range names {
		read := config.Read
		if name == "-" {
			name, read = "standard input", func(shown string) (*config.File, error) { return config.ReadFrom(shown, s.In) }
		}
		f, err := cli.Await(ctx, func() (*config.File, error) { return read(name) })
		var faults *config.Error
		if errors.As(err, &faults) {
			fmt.Fprintln(s.Err, faults)
			reported = cli.ErrReported
			continue
		}
		if err == nil {
			err = use(i, name, f)
		}
		if err != nil {
			return err
		}
	}
	return reported
}
