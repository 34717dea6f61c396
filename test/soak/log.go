package soak

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"sync"
	"time"
)

// maxTexts bounds how many failures are told; all are counted.
const maxTexts = 20

// Requests is what became of the requests of one client.
type Requests struct {
	Sent   int `json:"sent"`
	Failed int `json:"failed"`
	// Slow took more than a second. It is told, but not judged.
	Slow int `json:"slow"`
}

// log collects what happens. Its methods may be called from several goroutines.
type log struct {
	progress func(string)
	samples  io.Writer // A line of JSON for each sample.

	mu       sync.Mutex // Guards the rest, and is held while a sample is written.
	work     map[Work]int
	requests map[string]Requests
	failures []string
	failed   int
}

func newLog(progress func(string), samples io.Writer) *log {
	return &log{progress: progress, samples: samples, work: map[Work]int{}, requests: map[string]Requests{}}
}

// did counts work that was done.
func (l *log) did(w Work) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.work[w]++
}

// fail tells of what should have worked.
func (l *log) fail(err error) {
	l.mu.Lock()
	l.failed++
	text := time.Now().Format(time.TimeOnly) + " " + err.Error()
	if l.failed <= maxTexts {
		l.failures = append(l.failures, text)
	}
	l.mu.Unlock()
	l.progress("FAILED " + text)
}

// request counts a request.
func (l *log) request(client string, slow bool, err error) {
	l.mu.Lock()
	r := l.requests[client]
	r.Sent++
	if slow {
		r.Slow++
	}
	if err != nil {
		r.Failed++
	}
	l.requests[client] = r
	l.mu.Unlock()
	if err != nil {
		l.fail(fmt.Errorf("request (%s): %w", client, err))
	}
}

// sample writes what was counted at one moment.
func (l *log) sample(s Sample) error {
	data, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("write sample: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.samples.Write(append(data, '\n')); err != nil {
		return fmt.Errorf("write sample: %w", err)
	}
	return nil
}

// fill copies what was collected to the observation.
func (l *log) fill(o *Observation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o.Work, o.Requests = maps.Clone(l.work), maps.Clone(l.requests)
	o.Failures, o.Failed = append([]string(nil), l.failures...), l.failed
}

// requestsSoFar returns how many requests were sent, and how many failed.
func (l *log) requestsSoFar() (sent, failed int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.requests {
		sent, failed = sent+r.Sent, failed+r.Failed
	}
	return sent, failed
}
