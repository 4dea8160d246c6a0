package rules

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
)

// Stat returns an error if the path cannot be a rule file. It does not read the file.
func Stat(name string) error {
	_, err := cli.StatFile(name, "a rule file such as limits.yaml", "a file in it, for instance "+filepath.Join(name, "limits.yaml"))
	return err
}

// StatAndRead reads a rule file whose path a user has just given.
func StatAndRead(ctx context.Context, name string) (*config.File, error) {
	if err := Stat(name); err != nil {
		return nil, err
	}
	return Read(ctx, name)
}

// Read reads a rule file, which may be a pipe.
func Read(ctx context.Context, name string) (*config.File, error) {
	return cli.Await(ctx, func() (*config.File, error) { return config.Read(name) })
}

// ReadOrReport reads a rule file, - for standard input. It returns the name for messages. It prints the
// errors in the file and then returns cli.ErrReported.
func ReadOrReport(ctx context.Context, name string, s cli.Streams) (string, *config.File, error) {
	read := config.Read
	if name == "-" {
		name, read = "standard input", func(shown string) (*config.File, error) {
			text, err := io.ReadAll(io.LimitReader(s.In, config.MaxSize+1))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", shown, err)
			}
			return config.Parse(shown, text)
		}
	}
	f, err := cli.Await(ctx, func() (*config.File, error) { return read(name) })
	var faults *config.Error
	if errors.As(err, &faults) {
		fmt.Fprintln(s.Err, faults)
		err = cli.ErrReported
	}
	return name, f, err
}
