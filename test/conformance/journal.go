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
	Set string `json:"set"`
	Kit string `json:"kit"`
	// Versions name the programs of others and the kernel.
	Versions []string `json:"versions"`
	// Build names our programs by their content, as "kubelet 0123456789ab". It is empty
	// where only upstream's run.
	Build []string `json:"build,omitempty"`
	// Commit is what our programs were built from. Two commits may have the same build.
	Commit string `json:"commit,omitempty"`
	// Began is when the run began.
	Began time.Time `json:"began,omitzero"`
	// Focus and Skip narrowed the set. Empty where they did not.
	Focus string `json:"focus,omitempty"`
	Skip  string `json:"skip,omitempty"`
}

// Same reports whether results under one heading count for the other: the same programs
// ran the same specs.
func (h Heading) Same(other Heading) bool {
	return h.Set == other.Set && h.Kit == other.Kit && h.Focus == other.Focus && h.Skip == other.Skip &&
		slices.Equal(h.Versions, other.Versions) && slices.Equal(h.Build, other.Build)
}

// Journal is a file that results are added to as they come, so that a run that was
// killed goes on where it was. Its methods may be called from several goroutines.
type Journal struct {
	mu   sync.Mutex // Guards past, and is held while a line is written.
	file *os.File   // Open for appending.
	past Past
}

// Past is what a journal holds.
type Past struct {
	Heading Heading
	// Results are in the order in which they came; see [Latest].
	Results []Result
	// Stretch is all parts of the run together.
	Stretch
	// Runtime names the container runtime and its version.
	Runtime []string
}

// Stretch is time that a suite ran.
type Stretch struct {
	// Wall is how long it was.
	Wall time.Duration `json:"wall,omitempty"`
	// Load is how many processes wanted a processor meanwhile, on average: the mean of
	// the kernel's load averages. Zero when it is not known.
	Load float64 `json:"load,omitempty"`
	// Procs is how many specs ran at the same time at most. Zero when it is not known or
	// was not the same throughout.
	Procs int `json:"procs,omitempty"`
}

// plus returns both together; the load counts by the time that it lasted.
func (s Stretch) plus(more Stretch) Stretch {
	all := Stretch{Wall: s.Wall + more.Wall, Procs: s.Procs}
	if all.Wall == 0 {
		return Stretch{}
	}
	all.Load = (s.Load*s.Wall.Seconds() + more.Load*more.Wall.Seconds()) / all.Wall.Seconds()
	switch {
	case s.Wall == 0:
		all.Procs = more.Procs
	case more.Wall > 0 && more.Procs != s.Procs:
		all.Procs = 0
	}
	return all
}

// journalLine is a line after the heading: one of these.
type journalLine struct {
	Result *Result `json:"result,omitempty"`
	Stretch
	Runtime []string `json:"runtime,omitempty"`
}

// ReadJournal reads the journal at path as it is.
func ReadJournal(path string) (Past, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Past{}, fmt.Errorf("read journal: %w", err)
	}
	return parseJournal(data), nil
}

// OpenJournal opens the journal at path, or begins it. A journal with another heading,
// and one that already has results for all specs, is moved to path with ".previous"
// first: a new run begins.
func OpenJournal(path string, heading Heading, specs []string) (*Journal, error) {
	j, err := reopenJournal(path, heading)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	if j != nil && len(Missing(specs, j.past.Results)) > 0 {
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
	j = &Journal{file: file, past: Past{Heading: heading}}
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
	past := parseJournal(data)
	if !past.Heading.Same(heading) {
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
	return &Journal{file: file, past: past}, nil
}

// parseJournal reads what there is. Lines that are not whole, or of a later version,
// are passed over: their specs run again.
func parseJournal(data []byte) Past {
	var past Past
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &past.Heading) != nil {
		return Past{}
	}
	for lines.Scan() {
		var line journalLine
		if json.Unmarshal(lines.Bytes(), &line) == nil {
			past.take(line)
		}
	}
	return past
}

func (p *Past) take(line journalLine) {
	p.Stretch = p.plus(Stretch{Wall: max(0, line.Wall), Load: max(0, line.Load), Procs: max(0, line.Procs)})
	if line.Runtime != nil {
		p.Runtime = line.Runtime
	}
	if r := line.Result; r != nil && r.Spec != "" {
		if _, err := parseState(string(r.State)); err == nil {
			p.Results = append(p.Results, *r)
		}
	}
}

// Add appends a result.
func (j *Journal) Add(r Result) error { return j.add(journalLine{Result: &r}) }

// AddStretch appends time that the suite ran.
func (j *Journal) AddStretch(s Stretch) error { return j.add(journalLine{Stretch: s}) }

// SetRuntime appends the names of the container runtime and its version.
func (j *Journal) SetRuntime(versions []string) error { return j.add(journalLine{Runtime: versions}) }

func (j *Journal) add(line journalLine) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.past.take(line)
	return j.write(line)
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

// Past returns what the journal holds, with one result per spec.
func (j *Journal) Past() Past {
	j.mu.Lock()
	defer j.mu.Unlock()
	past := j.past
	past.Results = Latest(past.Results)
	return past
}

// Close closes the file.
func (j *Journal) Close() error { return j.file.Close() }
