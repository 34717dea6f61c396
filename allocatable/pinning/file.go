package pinning

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// The names of the kubelet's files in its root directory
// (https://kubernetes.io/docs/reference/node/kubelet-files/).
const (
	CPUFile    = "cpu_manager_state"
	MemoryFile = "memory_manager_state"
)

// maxFile bounds what is read of a state file. A node of 1000 pods has less than 1 MiB.
const maxFile = 16 << 20

// readFile returns the content of a file; nil if there is none.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("read %s: it has more than %d bytes", path, maxFile)
	}
	return data, nil
}

// writeFile replaces a file as a whole: after a crash there is the old one or the new one.
// Nobody else writes it meanwhile.
func writeFile(path string, data []byte) (err error) {
	dir := filepath.Dir(path)
	next := filepath.Join(dir, "."+filepath.Base(path)+".next")
	f, err := os.OpenFile(next, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(next))
		}
	}()
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", next, err)
	}
	return os.Rename(next, path)
}

// envelope is what both files have in common: the state as text, with its checksum, beside
// the fields of earlier versions, which have a checksum of their own.
type envelope struct {
	Checksum     uint64 `json:"checksum"`
	Data         string `json:"data,omitempty"`
	DataChecksum uint64 `json:"dataChecksum,omitempty"`
}

// isOld reports whether a file was written before there was a state as text.
func (e *envelope) isOld() bool { return e.Data == "" && e.DataChecksum == 0 }

// open unpacks the state.
func (e *envelope) open(into any) error {
	if want := checksum("(string)" + e.Data); e.DataChecksum != want {
		return fmt.Errorf("its checksum is %d, want %d", e.DataChecksum, want)
	}
	return json.Unmarshal([]byte(e.Data), into)
}

// seal packs the state.
func (e *envelope) seal(state any, legacy string) error {
	data, err := json.Marshal(state)
	if err != nil {
		return err
	}
	e.Data = string(data)
	e.DataChecksum = checksum("(string)" + e.Data)
	e.Checksum = checksum(legacy)
	return nil
}

// checkOld checks the checksum of an earlier version, which is that of one of the texts.
// The oldest files have none.
func (e *envelope) checkOld(texts ...string) error {
	if e.Checksum == 0 {
		return nil
	}
	for _, text := range texts {
		if e.Checksum == checksum(text) {
			return nil
		}
	}
	return fmt.Errorf("its checksum is %d, want %d", e.Checksum, checksum(texts[0]))
}

// checksum is the kubelet's of an object, given the text in which it prints one for this
// purpose: each field as name:(type)value.
func checksum(text string) uint64 {
	h := fnv.New32a()
	_, _ = io.WriteString(h, text) // never returns an error
	return uint64(h.Sum32())
}

// useless says what to do about a file that is of no use.
func useless(path string, err error) error {
	return fmt.Errorf("%s is of no use here: %w; drain the node and remove the file", path, err)
}

// checkPolicy compares the policy of a file with that of the configuration.
func checkPolicy(file, configured string) error {
	if file != configured {
		return fmt.Errorf("it was written under policy %q, the configuration says %q", file, configured)
	}
	return nil
}
