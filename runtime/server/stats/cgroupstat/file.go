package cgroupstat

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strconv"
)

// noLimitV1 is the least number by which cgroup v1 says that there is no limit: the
// largest one in whole pages, with pages of 64 KiB at most.
const noLimitV1 = 1<<63 - 1<<16

// number reads a file that holds one number; "max" and what v1 takes for it are Unlimited.
func (p *page) number(dir, name string) (uint64, error) {
	raw, err := p.read(filepath.Join(dir, name))
	if err != nil {
		return 0, err
	}
	n, err := parseNumber(bytes.TrimSpace(raw))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
	}
	return n, nil
}

// parseNumber reads a number that is not negative.
func parseNumber(raw []byte) (uint64, error) {
	if string(raw) == "max" {
		return Unlimited, nil
	}
	n, err := strconv.ParseUint(string(raw), 10, 64)
	if n >= noLimitV1 && err == nil {
		n = Unlimited
	}
	return n, err
}

// table reads a file of lines with a key and a number, and gives each to take.
func (p *page) table(dir, name string, take func(key []byte, value uint64)) error {
	raw, err := p.read(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	parseTable(raw, take)
	return nil
}

// parseTable gives each line of a key and a number to take; others are left out. The key
// holds until take returns.
func parseTable(raw []byte, take func(key []byte, value uint64)) {
	for line := range bytes.Lines(raw) {
		key, value, ok := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
		if !ok {
			continue
		}
		if n, err := strconv.ParseUint(string(value), 10, 64); err == nil {
			take(key, n)
		}
	}
}
