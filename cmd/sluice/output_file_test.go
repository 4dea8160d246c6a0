//go:build linux || darwin

package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/clitest"
)

// pictureCommands draw a picture of clitest.FourLines on standard input. The path of the picture follows.
var pictureCommands = [][]string{
	{"replay", "-p", "gcra 1/m", "-", "--out"},
	{"suggest", "-p", "gcra ?/m", "-", "--out"},
}

// links makes two relative links to a file, in folders of their own, and returns the path of the first.
func links(t *testing.T, file string) string {
	t.Helper()
	dir := filepath.Dir(file)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700))
	require.NoError(t, os.Symlink("../../"+filepath.Base(file), filepath.Join(dir, "a", "b", "second.svg")))
	require.NoError(t, os.Symlink("a/b", filepath.Join(dir, "folder")))
	require.NoError(t, os.Symlink("folder/second.svg", filepath.Join(dir, "first.svg")))
	return filepath.Join(dir, "first.svg")
}

// requireOnly requires that the folder has only this file, and links and folders: nothing temporary is left.
func requireOnly(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var files []string
	for _, e := range entries {
		if e.Type().IsRegular() {
			files = append(files, e.Name())
		}
	}
	require.Equal(t, want, files)
}

// A limit on the size of files has the effect of a disk with room for a part of the picture. The limit
// holds for a process of its own, because go test writes the names of opened files into a file too.
func TestFullDiskLeavesThePictureAsItWas(t *testing.T) {
	const limited = "SLUICE_TEST_LIMITED"
	if os.Getenv(limited) == "" {
		child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		child.Env = append(os.Environ(), limited+"=yes")
		out, err := child.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return
	}
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before))
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 2048, Max: before.Max}))
	for _, command := range pictureCommands {
		for _, name := range []string{"a.svg", "a.png"} {
			draw := func(path string) {
				t.Helper()
				exitCode, out, errs := clitest.Execute(t, clitest.FourLines, append(command, path)...)
				require.Equal(t, cli.ExitFailed, exitCode)
				require.Contains(t, errs, "--out: write "+path+": file too large; the file is as it was before")
				require.Contains(t, out, "4 requests", "the report is complete")
			}
			old := clitest.Write(t, name, "old")
			draw(old)
			require.Equal(t, "old", string(clitest.Read(t, old)))
			requireOnly(t, filepath.Dir(old), name)

			if strings.HasSuffix(name, ".svg") {
				draw(links(t, old))
				require.Equal(t, "old", string(clitest.Read(t, old)))
				requireOnly(t, filepath.Dir(old), name)
			}

			none := filepath.Join(t.TempDir(), name)
			draw(none)
			requireOnly(t, filepath.Dir(none))
		}
	}
}

func TestPictureGoesToTheTargetOfALink(t *testing.T) {
	for _, command := range pictureCommands {
		for _, exists := range []bool{true, false} {
			target := filepath.Join(t.TempDir(), "target.svg")
			if exists {
				require.NoError(t, os.WriteFile(target, []byte("old"), 0o600))
			}
			link := links(t, target)
			clitest.Ok(t, clitest.FourLines, append(command, link)...)
			require.Contains(t, string(clitest.Read(t, target)), "</svg>")
			info, err := os.Lstat(link)
			require.NoError(t, err)
			require.Equal(t, os.ModeSymlink, info.Mode().Type(), "the link stays a link")
			requireOnly(t, filepath.Dir(target), "target.svg")
		}
	}
}

func TestPictureKeepsThePermissionsOfTheFile(t *testing.T) {
	for _, mode := range []os.FileMode{0o600, 0o640, 0o666, 0o777} {
		path := clitest.Write(t, "a.svg", "old")
		require.NoError(t, os.Chmod(path, mode))
		owner := 0
		if os.Getuid() == 0 {
			owner = 12345
			require.NoError(t, os.Chown(path, owner, owner))
		}
		clitest.Ok(t, clitest.FourLines, append(pictureCommands[0], path)...)
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode())
		if owner != 0 {
			stat := info.Sys().(*syscall.Stat_t)
			require.Equal(t, [2]uint32{12345, 12345}, [2]uint32{stat.Uid, stat.Gid})
		}
	}
	fresh, plain := filepath.Join(t.TempDir(), "a.svg"), filepath.Join(t.TempDir(), "plain")
	clitest.Ok(t, clitest.FourLines, append(pictureCommands[0], fresh)...)
	require.NoError(t, os.WriteFile(plain, nil, 0o666))
	want, err := os.Stat(plain)
	require.NoError(t, err)
	got, err := os.Stat(fresh)
	require.NoError(t, err)
	require.Equal(t, want.Mode(), got.Mode(), "a new file has the permissions of any new file")
}

// A picture in place of the report, or the other way around, would lose one of them.
func TestPictureMustNotReplaceTheReport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.svg")
	f, err := os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	for _, s := range []cli.Streams{{In: strings.NewReader(clitest.FourLines), Out: f, Err: io.Discard}, {In: strings.NewReader(clitest.FourLines), Out: io.Discard, Err: f}} {
		var errs bytes.Buffer
		if s.Err == io.Discard {
			s.Err = &errs
		}
		require.Equal(t, cli.ExitUsage, cli.Run(context.Background(), append(pictureCommands[0], path), s, clitest.Commands...))
		require.Contains(t, errs.String()+string(clitest.Read(t, path)), "standard output or standard error")
	}
}
