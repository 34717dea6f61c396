package cni

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

// A record is a file of one or two lines: the intent, written before the first
// plugin gets its configuration, and the result, written after the last is done.
// Each line is a CRC-32C in eight hexadecimal digits, a space, and JSON. A line that
// a crash cut off, or that the disk gave back as zeros, does not fit its sum and
// counts as not written. Zeros make room for the result together with the intent:
// a file whose size stays the same is synced at less cost.

// room is more than nearly every result takes; a longer one makes the file grow.
const room = 4 << 10

// recordVersion is the format; a record of another one counts as damaged.
const recordVersion = 1

// intent is what is needed to undo an ADD at any time.
type intent struct {
	Version    int    `json:"version"`
	Network    string `json:"network"`
	Attachment Key    `json:"attachment"`
	NetNS      string `json:"netns,omitempty"`
	// NetNSID tells the namespace from a later one at the same path.
	NetNSID      string                     `json:"netnsID,omitempty"`
	Args         []Arg                      `json:"args,omitempty"`
	Capabilities map[string]json.RawMessage `json:"capabilities,omitempty"`
	Config       json.RawMessage            `json:"config"`
}

// record is what a file holds.
type record struct {
	intent
	// result is nil while ADD has not finished.
	result json.RawMessage
	// network is the configuration that ADD used.
	network *Network
}

// line encodes a value for a record file.
func line(value any) ([]byte, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%08x %s\n", checksum(data), data), nil
}

// opening returns the first content of a record, and where the result goes.
func opening(i intent) (data []byte, offset int64, err error) {
	data, err = line(i)
	return append(data, make([]byte, room)...), int64(len(data)), err
}

func checksum(data []byte) uint32 { return crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)) }

// parseRecord reads a record file. An error means that even the intent is damaged;
// a damaged result leaves an unfinished record.
func parseRecord(data []byte) (*record, error) {
	first, rest, _ := bytes.Cut(data, []byte{'\n'})
	r := &record{}
	if err := decodeLine(first, &r.intent); err != nil {
		return nil, err
	}
	if r.Version != recordVersion {
		return nil, fmt.Errorf("format %d, want %d", r.Version, recordVersion)
	}
	network, err := Parse(r.Config)
	if err != nil {
		return nil, fmt.Errorf("stored configuration: %w", err)
	}
	r.network = network
	second, _, whole := bytes.Cut(rest, []byte{'\n'})
	var result json.RawMessage
	if whole && decodeLine(second, &result) == nil {
		r.result = result
	}
	return r, nil
}

func decodeLine(line []byte, into any) error {
	sum, data, ok := bytes.Cut(line, []byte{' '})
	want, err := strconv.ParseUint(string(sum), 16, 32)
	if !ok || err != nil || len(sum) != 8 {
		return fmt.Errorf("no checksum at its start (%d bytes)", len(line))
	}
	if got := checksum(data); uint64(got) != want {
		return fmt.Errorf("checksum is %08x, want %08x", got, want)
	}
	return json.Unmarshal(data, into)
}

// recordName is a file's name. Neither a container's ID nor a network's name has an
// '@'; an interface's may.
func recordName(k Key, network string) string {
	return k.ContainerID + "@" + k.IfName + "@" + network
}

// parseName takes a file's name apart, and reports whether it is a record's.
func parseName(name string) (k Key, network string, ok bool) {
	first, last := strings.IndexByte(name, '@'), strings.LastIndexByte(name, '@')
	if first <= 0 || last == first || last == len(name)-1 {
		return Key{}, "", false
	}
	return Key{ContainerID: name[:first], IfName: name[first+1 : last]}, name[last+1:], true
}
