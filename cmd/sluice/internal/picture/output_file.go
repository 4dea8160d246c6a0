package picture

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// output is the file that --out names.
type output struct {
	path string
	info fs.FileInfo // nil: there is no such file yet
	// target is where the file is: path after all symbolic links.
	target string
}

// openOutput finds the file of a path. It changes nothing.
func openOutput(path string) (*output, error) {
	info, err := os.Stat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err == nil && info.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: path, Err: errors.New("is a directory")}
	}
	return &output{path, info, followLinks(path)}, nil
}

// followLinks returns the path of the file that a symbolic link names, also if there is no such file yet.
// It does not clean the path, because a/../b is not b if a is a link.
func followLinks(path string) string {
	for range 40 { // Linux follows as many
		link, err := os.Readlink(path)
		if err != nil { // it is no link
			break
		}
		if !filepath.IsAbs(link) {
			folder, _ := filepath.Split(path)
			link = folder + link
		}
		path = link
	}
	return path
}

// isDevice reports whether the file is a device or a pipe. Renaming another file to its name would remove it,
// so it is written directly.
func (o *output) isDevice() bool { return o.info != nil && !o.info.Mode().IsRegular() }

// check returns an error if write is certain to fail. It leaves no file behind.
func (o *output) check() error {
	if o.isDevice() { // a reader of a pipe would see its end
		return nil
	}
	if o.info != nil {
		f, err := os.OpenFile(o.path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_ = f.Close()
	}
	f, err := o.createBeside()
	if err != nil {
		return err
	}
	_ = f.Close()
	return os.Remove(f.Name())
}

// write writes the whole content or changes nothing, except for a device. It writes a new file in the
// same folder and renames it, so that neither a full disk nor a crash destroys an old file. The new file has the
// permissions of the old one, and its owner if the process may set it.
func (o *output) write(content []byte) error {
	if o.isDevice() {
		f, err := os.OpenFile(o.path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.Write(content)
		return errors.Join(err, f.Close())
	}
	f, err := o.createBeside()
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = cmp.Or(err, f.Sync(), f.Close()) // some file systems report a full disk only now
	if err == nil {
		err = os.Rename(f.Name(), o.target)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("write %s: %w; the file is as it was before", o.path, cause(err))
	}
	return nil
}

// createBeside creates an empty file in the folder of the target, with the permissions of the target.
func (o *output) createBeside() (*os.File, error) {
	mode := fs.FileMode(0o666)
	if o.info != nil {
		mode = o.info.Mode().Perm()
	}
	folder, _ := filepath.Split(o.target)
	f, err := os.OpenFile(fmt.Sprintf("%s.sluice-%016x.tmp", folder, rand.Uint64()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return nil, &fs.PathError{Op: "create a file beside", Path: o.path, Err: cause(err)}
	}
	if o.info != nil {
		setOwner(f, o.info)
		_ = f.Chmod(mode) // the umask may have taken some away
	}
	return f, nil
}

// cause returns the error of the system without the name of a temporary file.
func cause(err error) error {
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	return err
}
