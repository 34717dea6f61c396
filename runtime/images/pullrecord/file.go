package pullrecord

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// Names of files are a hash of what they are about, which may have slashes.
	filePrefix = "sha256-"
	// temporary ends the names of files that are being written.
	temporary = ".tmp"
	// maxFile bounds what is read of a file: 10 MiB.
	maxFile = 10 << 20
)

// folder holds files of one kind.
type folder string

func (f folder) path(subject string) string {
	sum := sha256.Sum256([]byte(subject))
	return filepath.Join(string(f), filePrefix+hex.EncodeToString(sum[:]))
}

// read returns the content of the file about a subject; fs.ErrNotExist if there is none.
func (f folder) read(subject string) ([]byte, error) { return readFile(f.path(subject)) }

func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	return data, err
}

// write puts a file about a subject in the place of an earlier one, such that after a
// crash, also of the machine, one of the two is there as a whole.
func (f folder) write(subject string, content any) error {
	data, err := json.Marshal(content)
	if err != nil {
		return err
	}
	path := f.path(subject)
	err = writeSynced(path+temporary, data)
	if err == nil {
		err = os.Rename(path+temporary, path)
	}
	if err != nil {
		return errors.Join(err, removeFile(path+temporary))
	}
	return f.sync()
}

func writeSynced(path string, data []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(data, '\n'))
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// remove removes the file about a subject; it need not be there.
func (f folder) remove(subject string) error { return removeFile(f.path(subject)) }

// removeOlder removes the file about a subject if it was written longer ago than age.
func (f folder) removeOlder(subject string, age time.Duration) error {
	info, err := os.Stat(f.path(subject))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil || time.Since(info.ModTime()) <= age:
		return err
	}
	return f.remove(subject)
}

func removeFile(path string) error {
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// sync makes renames last.
func (f folder) sync() error {
	dir, err := os.Open(string(f))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// each calls visit with the content of each file. A file that cannot be read, or that
// visit fails on, is in the error and leaves the others alone.
func (f folder) each(visit func(data []byte) error) error {
	entries, err := os.ReadDir(string(f))
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if e.IsDir() || !strings.HasPrefix(e.Name(), filePrefix) || strings.HasSuffix(e.Name(), temporary) {
			continue
		}
		path := filepath.Join(string(f), e.Name())
		data, err := readFile(path)
		if err == nil {
			err = visit(data)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", path, err))
		}
	}
	return errors.Join(errs...)
}
