package conformance

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"
)

// Heading is the first line of a journal: what ran. Results of another heading say
// nothing about this one.
type Heading struct {
	Set      string   `json:"set"`
	Kit      string   `json:"kit"`
	Versions []string `json:"versions"`
}

// equal reports whether results under one heading count for the other.
func (h Heading) equal(other Heading) bool {
	return h.Set == other.Set && h.Kit == other.Kit && slices.Equal(h.Versions, other.Versions)
}

// Journal is a file that results are added to as they come, so that a run that was
// killed goes on where it was. Its methods may be called from several goroutines.
type Journal struct {
	mu sync.Mutex // Guards the fields below.
	// file is open for appending.
	file    *os.File
	results []Result
	wall    time.Duration
}

// journalLine is a line after the heading: a result, or time that the suite has run.
type journalLine struct {
	Result *Result       `json:"result,omitempty"`
	Wall   time.Duration `json:"wall,omitempty"`
}

// OpenJournal opens the journal at path, or begins it. A journal with another heading,
// and one that already has results for all specs, is moved to path with ".previous"
// first: a new run begins.
func OpenJournal(path string, heading Heading, specs []string) (*Journal, error) {
	j, err := reopenJournal(path, heading)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	if j != nil && len(Missing(specs, j.results)) > 0 {
		return j, nil
	}
	if j != nil {
		if err := j.file.Close(); err != nil {
			return nil, fmt.Errorf("close journal: %w", err)
		}
	}
	if err := os.Rename(path, path+".previous"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("begin journal: %w", err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("begin journal: %w", err)
	}
	j = &Journal{file: file}
	return j, j.write(heading)
}

// reopenJournal returns nil if there is no journal with this heading.
func reopenJournal(path string, heading Heading) (*Journal, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // There is none.
	}
	if err != nil {
		return nil, err
	}
	found, results, wall := parseJournal(data)
	if !found.equal(heading) {
		return nil, nil //nolint:nilnil // There is none with this heading.
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	// The last line may have been cut by a crash: begin a new one.
	if len(data) > 0 && data[len(data)-1] != '\n' {
		if _, err := file.WriteString("\n"); err != nil {
			return nil, errors.Join(err, file.Close())
		}
	}
	return &Journal{file: file, results: results, wall: wall}, nil
}

// parseJournal reads what there is. Lines that are not whole, or of a later version,
// are passed over: their specs run again.
func parseJournal(data []byte) (heading Heading, results []Result, wall time.Duration) {
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &heading) != nil {
		return Heading{}, nil, 0
	}
	for lines.Scan() {
		var line journalLine
		if json.Unmarshal(lines.Bytes(), &line) != nil {
			continue
		}
		wall += max(0, line.Wall)
		if r := line.Result; r != nil && r.Spec != "" {
			if _, err := parseState(string(r.State)); err == nil {
				results = append(results, *r)
			}
		}
	}
	return heading, results, wall
}

// Add appends a result.
func (j *Journal) Add(r Result) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.results = append(j.results, r)
	return j.write(journalLine{Result: &r})
}

// AddWall appends how long a part of the run took.
func (j *Journal) AddWall(d time.Duration) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.wall += d
	return j.write(journalLine{Wall: d})
}

func (j *Journal) write(line any) error {
	data, err := json.Marshal(line)
	if err == nil {
		_, err = j.file.Write(append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	return nil
}

// Results returns one result per spec, the last one added.
func (j *Journal) Results() []Result {
	j.mu.Lock()
	defer j.mu.Unlock()
	return Latest(j.results)
}

// Wall returns how long all parts of the run took together.
func (j *Journal) Wall() time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.wall
}

// Close closes the file.
func (j *Journal) Close() error { return j.file.Close() }
