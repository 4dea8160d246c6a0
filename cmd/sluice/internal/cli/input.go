package cli

import (
	"context"
	"errors"
	"io/fs"
	"math/big"
	"os"
	"regexp"
	"strings"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/compose"
)

// PolicyError marks the wrong word if the spec is short and printable.
func PolicyError(err error) error {
	var bad *compose.SpecError
	if !errors.As(err, &bad) || len(bad.Spec) > 200 || !config.IsPrintable(bad.Spec) {
		return Usagef("--policy: %s", WithoutPackage(err))
	}
	return Usagef("--policy: %s\n  %s", bad.Problem, strings.ReplaceAll(bad.Caret(), "\n", "\n  "))
}

// StatFile returns the FileInfo of path. want and inside complete the errors for a missing file
// and for a directory.
func StatFile(path, want, inside string) (os.FileInfo, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, Usagef("no file %q; name %s", path, want)
	case err != nil:
		return nil, Usagef("%w", err)
	case info.IsDir():
		return nil, Usagef("%s is a directory; name %s", path, inside)
	}
	return info, nil
}

// Await returns the result of f, or the error of ctx if that ends first: f may wait for a
// terminal or for the writer of a pipe. The goroutine of f is then abandoned.
func Await[T any](ctx context.Context, f func() (T, error)) (T, error) {
	var value, none T
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		value, err = f()
	}()
	select {
	case <-done:
		return value, err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// percentage bounds the length, because a number of any length would take any time.
var percentage = regexp.MustCompile(`^\d{1,3}(\.\d{1,18})?%$`)

// ParsePercentage parses a percentage from 0% to 100%. The share is exact, from 0 to 1.
func ParsePercentage(s string) (share *big.Rat, ok bool) {
	if !percentage.MatchString(s) {
		return nil, false
	}
	share, ok = new(big.Rat).SetString(strings.TrimSuffix(s, "%"))
	hundred := big.NewRat(100, 1)
	return share.Quo(share, hundred), ok && share.Cmp(big.NewRat(1, 1)) <= 0
}

// Part returns the share of total. It rounds down.
func Part(share *big.Rat, total int64) int64 {
	part := new(big.Rat).Mul(share, new(big.Rat).SetInt64(total))
	return new(big.Int).Quo(part.Num(), part.Denom()).Int64()
}
