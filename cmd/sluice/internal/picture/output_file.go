package picture

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// output is the file that --out names.
type output struct {
	path string
	info fs.FileInfo // nil: there is no such file yet
}

// findOutput finds the file of a path. It changes nothing.
func findOutput(path string) (*output, error) {
	info, err := os.Stat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err == nil && info.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: path, Err: errors.New("is a directory")}
	}
	return &output{path, info}, nil
}

// isDevice reports whether the file is a device or a pipe, which keeps nothing.
func (o *output) isDevice() bool { return o.info != nil && !o.info.Mode().IsRegular() }

// open opens a regular file.
func (o *output) open() (*os.File, error) { return os.OpenFile(o.path, os.O_RDWR|os.O_CREATE, 0o666) }

// check returns an error if the file cannot be opened. It leaves the file as it was.
func (o *output) check() error {
	if o.isDevice() { // a reader of a pipe would see its end
		return nil
	}
	f, err := o.open()
	if err != nil {
		return err
	}
	defer f.Close()
	return o.removeNew()
}

// removeNew removes the file if there was none before. The path can be a link to it.
func (o *output) removeNew() error {
	if o.info != nil {
		return nil
	}
	target, err := filepath.EvalSymlinks(o.path)
	if err != nil {
		return err
	}
	return os.Remove(target)
}

// write writes the whole content. If that fails, for instance because the disk is full, it writes the old content again: the file
// still has the space for it.
func (o *output) write(content []byte) error {
	if o.isDevice() {
		return os.WriteFile(o.path, content, 0)
	}
	f, err := o.open()
	if err != nil {
		return err
	}
	defer f.Close()
	old, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(content, 0); err == nil {
		err = cmp.Or(f.Truncate(int64(len(content))), f.Sync()) // some file systems report a full disk only now
	}
	if err == nil {
		return nil
	}
	_, failed := f.WriteAt(old, 0)
	if failed = cmp.Or(failed, f.Truncate(int64(len(old))), o.removeNew()); failed != nil {
		return fmt.Errorf("%w; the file is damaged: %w", err, failed)
	}
	return fmt.Errorf("%w; the file is as it was before", err)
}
