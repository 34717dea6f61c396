package csi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	storagev1 "k8s.io/api/storage/v1"
)

// maxRecord bounds the file of a record. A handle has at most 128 bytes by CSI, some
// drivers use a few more.
const maxRecord = 64 << 10

// record is what is kept on disk about a volume, from before a driver is told to make it
// until after it was told to undo it, so that any agent can undo it. Names and meaning
// are the kubelet's, which ignores others.
type record struct {
	Spec       string                        `json:"specVolID,omitempty"`
	Handle     string                        `json:"volumeHandle"`
	Driver     string                        `json:"driverName"`
	Node       string                        `json:"nodeName,omitempty"`
	Attachment string                        `json:"attachmentID,omitempty"`
	Lifecycle  storagev1.VolumeLifecycleMode `json:"volumeLifecycleMode,omitempty"`
	// Volume is our own: what the pod calls the volume. By it the volume is found while
	// the API server is away.
	Volume string `json:"nodekitPodVolume,omitempty"`
	// Group is our own: the group that users of the volume have to be of.
	Group string `json:"nodekitGroup,omitempty"`
}

func (r record) id() volumeID { return volumeID{driver: r.Driver, handle: r.Handle} }

// parseRecord reads a record. Fields that it does not know are left out: other agents
// may write more.
func parseRecord(raw []byte) (record, error) {
	var r record
	if err := json.Unmarshal(raw, &r); err != nil {
		return record{}, err
	}
	if err := r.id().check(); err != nil {
		return record{}, err
	}
	if r.Spec != "" && !segment(r.Spec) {
		return record{}, fmt.Errorf("%q cannot be the name of a volume", r.Spec)
	}
	return r, nil
}

// readRecord reads the record in a directory. One that does not exist is
// fs.ErrNotExist.
func readRecord(dir string) (record, error) {
	path := filepath.Join(dir, recordFile)
	f, err := os.Open(path)
	if err != nil {
		return record{}, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxRecord+1))
	switch {
	case err != nil:
		return record{}, fmt.Errorf("read %s: %w", path, err)
	case len(raw) > maxRecord:
		return record{}, fmt.Errorf("read %s: it has more than %d bytes", path, maxRecord)
	}
	r, err := parseRecord(raw)
	if err != nil {
		return record{}, fmt.Errorf("read %s: %w", path, err)
	}
	return r, nil
}

// recordTemp is the name of a record that is being written.
const recordTemp = "." + recordFile

// write keeps the record in a directory, which is made. After a crash there is the whole
// record or what was there before.
func (r record) write(dir string) error {
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return err
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, recordFile)
	if now, err := readRecord(dir); err == nil && now == r {
		return nil
	}
	temp := filepath.Join(dir, recordTemp)
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(raw, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// removeRecord removes the record in a directory, and then the directory, which must
// hold nothing else. What does not exist is no error.
func removeRecord(dir string) error {
	for _, path := range []string{filepath.Join(dir, recordTemp), filepath.Join(dir, recordFile), dir} {
		if err := remove(path); err != nil {
			return err
		}
	}
	return nil
}

// remove removes a file or an empty directory, if it exists.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
