package userns

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// record is the content of the file, as kubelets write it.
type record struct {
	UIDs []mapping `json:"uidMappings"`
	GIDs []mapping `json:"gidMappings"`
}

type mapping struct {
	Host      uint32 `json:"hostId"`
	Container uint32 `json:"containerId"`
	Length    uint32 `json:"length"`
}

func readRecord(file string) (Range, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return Range{}, err
	}
	return parseRecord(raw)
}

// parseRecord accepts one mapping from 0 on that is the same for users and groups.
func parseRecord(raw []byte) (Range, error) {
	var r record
	d := json.NewDecoder(bytes.NewReader(raw))
	if err := d.Decode(&r); err != nil {
		return Range{}, err
	}
	switch {
	case len(r.UIDs) != 1 || len(r.GIDs) != 1:
		return Range{}, errors.New("want one mapping of users and one of groups")
	case r.UIDs[0] != r.GIDs[0]:
		return Range{}, errors.New("users and groups are mapped differently")
	case r.UIDs[0].Container != 0:
		return Range{}, errors.New("the pod's root is not mapped")
	}
	return Range{First: r.UIDs[0].Host, Length: r.UIDs[0].Length}, nil
}

// writeRecord makes the file appear with all its content, or not at all.
func writeRecord(file string, r Range) error {
	m := []mapping{{Host: r.First, Length: r.Length}}
	raw, err := json.Marshal(record{UIDs: m, GIDs: m})
	if err != nil {
		return err
	}
	const podDirMode = 0o750
	if err := os.MkdirAll(filepath.Dir(file), podDirMode); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".userns-*")
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// ParseSubIDs reads the output of getsubids(1) for the user kubelet: the one range of
// subordinate IDs that the machine keeps for pods. It has to be the same for users and
// for groups.
func ParseSubIDs(output []byte) (first, length uint32, err error) {
	text := strings.Trim(string(output), "\n")
	fields := strings.Fields(text)
	if strings.Contains(text, "\n") || len(fields) != 4 {
		return 0, 0, fmt.Errorf("output of getsubids is %q, want one line like \"0: kubelet 65536 7208960\"", text)
	}
	var n [2]uint32
	for i, field := range fields[2:] {
		v, err := strconv.ParseUint(field, 10, 32)
		if err != nil {
			return 0, 0, fmt.Errorf("output of getsubids is %q: %w", text, err)
		}
		n[i] = uint32(v)
	}
	return n[0], n[1], nil
}
