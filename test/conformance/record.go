package conformance

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Record is the outcome of a whole run, with what is needed to judge it later. Its text
// is compact, sorted, and made for version control: a line per spec.
type Record struct {
	// Set and Kit name what ran; see [Set.Name] and [Kit.Name].
	Set string `json:"set"`
	Kit string `json:"kit"`
	// Date is when the run began.
	Date time.Time `json:"date"`
	// Versions name the programs and the kernel, as "containerd 1.6.20".
	Versions []string `json:"versions"`
	// Build names our programs by their content; see [Heading].
	Build []string `json:"build,omitempty"`
	// Wall is how long the suite ran, all of its parts together.
	Wall time.Duration `json:"wall"`
	// Load is the machine's load average meanwhile. Zero when it is not known.
	Load float64 `json:"load,omitempty"`
	// Procs is how many specs ran at the same time at most. Zero when it is not known.
	Procs int `json:"procs,omitempty"`
	// Results are those of all specs of the set, in the order of their names.
	Results []Result `json:"results"`
}

// recordDay is how the date of a record may be written that lacks the time of day.
const recordDay = "2006-01-02"

// Encode writes the record as text.
func (r Record) Encode(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# set %s\n# kit %s\n# date %s\n# wall %s\n", r.Set, r.Kit, r.Date.UTC().Format(time.RFC3339), r.Wall.Round(time.Second))
	if r.Load > 0 {
		fmt.Fprintf(&b, "# load %.1f\n", r.Load)
	}
	if r.Procs > 0 {
		fmt.Fprintf(&b, "# procs %d\n", r.Procs)
	}
	for _, version := range r.Versions {
		fmt.Fprintf(&b, "# version %s\n", version)
	}
	for _, program := range r.Build {
		fmt.Fprintf(&b, "# build %s\n", program)
	}
	for _, result := range Latest(r.Results) {
		fmt.Fprintf(&b, "%s\t%.1f\t%s", result.State, result.Time.Seconds(), field(result.Spec))
		if result.Message != "" {
			fmt.Fprintf(&b, "\t%s", field(result.Message))
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// field keeps a text from being taken for two.
func field(s string) string { return strings.NewReplacer("\t", " ", "\n", " ", "\r", " ").Replace(s) }

// ParseRecord reads what [Record.Encode] wrote.
func ParseRecord(r io.Reader) (Record, error) {
	var record Record
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for number := 1; lines.Scan(); number++ {
		if err := record.parseLine(lines.Text()); err != nil {
			return Record{}, fmt.Errorf("read record: line %d: %w", number, err)
		}
	}
	if err := lines.Err(); err != nil {
		return Record{}, fmt.Errorf("read record: %w", err)
	}
	return record, nil
}

func (r *Record) parseLine(line string) error {
	if heading, ok := strings.CutPrefix(line, "# "); ok {
		return r.parseHeading(heading)
	}
	if line == "" {
		return nil
	}
	fields := strings.SplitN(line, "\t", 4)
	if len(fields) < 3 || fields[2] == "" {
		return fmt.Errorf("want state, seconds, spec and maybe a message with tabs between, got %q", line)
	}
	state, err := parseState(fields[0])
	if err != nil {
		return err
	}
	tenths, err := seconds(fields[1])
	if err != nil {
		return err
	}
	result := Result{Spec: field(fields[2]), State: state, Time: tenths}
	if len(fields) == 4 {
		result.Message = field(fields[3])
	}
	r.Results = append(r.Results, result)
	return nil
}

// seconds reads a time of up to some days, in seconds with tenths.
func seconds(s string) (time.Duration, error) {
	v, err := number(s)
	return time.Duration(v*10+0.5) * (time.Second / 10), err
}

// number reads a number that is not negative and not huge.
func number(s string) (float64, error) {
	const limit = 1e6
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= 0 && v <= limit) {
		return 0, fmt.Errorf("bad number %q", s)
	}
	return v, nil
}

// parseHeading takes a line about the whole run. What a later version may add is passed
// over.
func (r *Record) parseHeading(heading string) (err error) {
	key, value, _ := strings.Cut(heading, " ")
	switch key {
	case "set":
		r.Set = value
	case "kit":
		r.Kit = value
	case "version":
		r.Versions = append(r.Versions, value)
	case "build":
		r.Build = append(r.Build, value)
	case "date":
		r.Date, err = parseDate(value)
	case "wall":
		r.Wall, err = time.ParseDuration(value)
	case "load":
		r.Load, err = number(value)
	case "procs":
		var procs uint64
		procs, err = strconv.ParseUint(value, 10, 16)
		r.Procs = int(procs)
	}
	return err
}

func parseDate(value string) (time.Time, error) {
	if day, err := time.Parse(recordDay, value); err == nil {
		return day, nil
	}
	return time.Parse(time.RFC3339, value)
}

// Version returns the version of a program that the record names, "" when it does not.
func (r Record) Version(program string) string {
	for _, version := range r.Versions {
		if rest, ok := strings.CutPrefix(version, program+" "); ok {
			return rest
		}
	}
	return ""
}
