package shutdown

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// State is when the last shutdown began and ended; the file has the kubelet's format
// (graceful_node_shutdown_state), from which its metrics
// kubelet_graceful_shutdown_start_time_seconds and _end_time_seconds are made.
type State struct {
	Start time.Time `json:"startTime"`
	// End is zero if the pods had not all ended when the machine went down.
	End time.Time `json:"endTime"`
}

// ReadState reads a state file. Without one the State is zero.
func ReadState(path string) (State, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, nil
	}
	if err != nil {
		return State{}, fmt.Errorf("read the times of the last shutdown: %w", err)
	}
	var s State
	if err := json.Unmarshal(data, &s); err != nil {
		return State{}, fmt.Errorf("read the times of the last shutdown in %s: %w", path, err)
	}
	return s, nil
}

// write replaces the file as a whole.
func (s State) write(path string) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
