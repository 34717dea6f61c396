package cni

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"time"
)

// A record is a file of one or two lines: the intent, written before the first
// plugin gets its configuration, and the result, written after the last is done.
// Each line is a CRC-32C in eight hexadecimal digits, a space, and JSON. A line that
// a crash cut off, or that the disk gave back as zeros, does not fit its sum and
// counts as not written. Zeros make room for the result together with the intent: a
// file whose size stays the same is synced at less cost. The sum of the result goes
// on from that of the intent, so that what an earlier record has left in the file
// fits none.

const (
	// room is more than nearly every result takes; a longer one makes the file grow.
	room = 4 << 10
	// block is what the size of a new record is a multiple of.
	block = 8 << 10
)

// recordVersion is the format; a record of another one counts as damaged.
const recordVersion = 1

// intent is what is needed to undo an ADD at any time.
type intent struct {
	Version int `json:"version"`
	// Began makes each intent another one.
	Began      time.Time `json:"began"`
	Network    string    `json:"network"`
	Attachment Key       `json:"attachment"`
	NetNS      string    `json:"netns,omitempty"`
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

// line encodes a value for a record file. Before is the sum of the line before, 0 for
// the first.
func line(before uint32, value any) ([]byte, uint32, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, 0, err
	}
	sum := checksum(before, data)
	return fmt.Appendf(nil, "%08x %s\n", sum, data), sum, nil
}

func checksum(before uint32, data []byte) uint32 {
	return crc32.Update(before, crc32.MakeTable(crc32.Castagnoli), data)
}

// page is the first content of a record.
type page struct {
	data []byte
	// end is where the result goes, sum what its checksum begins with.
	end int64
	sum uint32
}

func newPage(i intent) (page, error) {
	data, sum, err := line(0, i)
	size := (len(data) + room + block - 1) / block * block
	return page{append(data, make([]byte, size-len(data))...), int64(len(data)), sum}, err
}

// recordedName returns the name of the file that begins with data, if it is a record.
func recordedName(data []byte) (string, bool) {
	first, _, _ := bytes.Cut(data, []byte{'\n'})
	var i intent
	if _, err := decodeLine(0, first, &i); err != nil {
		return "", false
	}
	return recordName(i.Attachment, i.Network), true
}

// parseRecord reads a record file. An error means that even the intent is damaged;
// a damaged result leaves an unfinished record.
func parseRecord(data []byte) (*record, error) {
	first, rest, _ := bytes.Cut(data, []byte{'\n'})
	r := &record{}
	sum, err := decodeLine(0, first, &r.intent)
	if err != nil {
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
	if whole {
		if _, err := decodeLine(sum, second, &result); err == nil {
			r.result = result
		}
	}
	return r, nil
}

// decodeLine reads a line after one with the sum before, and returns its own.
func decodeLine(before uint32, line []byte, into any) (uint32, error) {
	sum, data, ok := bytes.Cut(line, []byte{' '})
	want, err := strconv.ParseUint(string(sum), 16, 32)
	if !ok || err != nil || len(sum) != 8 {
		return 0, fmt.Errorf("no checksum at its start (%d bytes)", len(line))
	}
	if got := checksum(before, data); uint64(got) != want {
		return 0, fmt.Errorf("checksum is %08x, want %08x", got, want)
	}
	return uint32(want), json.Unmarshal(data, into)
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
