package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp/syntax"
	"strconv"
	"strings"
	"time"
)

// LogQuery is what is asked of the logs of services of the machine
// (https://kubernetes.io/docs/concepts/cluster-administration/system-logs/#log-query).
type LogQuery struct {
	// Services are one to four names of letters, digits and "-_.:@".
	Services []string
	LogOptions
}

// LogOptions choose among what a service has logged. The zero value is all of it. They are
// for a Journal: of a file everything is shown.
type LogOptions struct {
	// Since and Until are the first and the last moment; zero: there is no such limit.
	Since, Until time.Time
	// Tail is how many lines from the end are shown, 0 to 100,000; nil: all.
	Tail *int
	// Boot is the run of the machine, 0 this one and -1 the last one before it; nil: all.
	Boot *int
	// Pattern is a regular expression that lines have to match; empty: all do.
	Pattern string
}

// Journal has the logs of services that do not write files. Its methods are called by many
// goroutines.
type Journal interface {
	// Has reports whether there are logs of a service.
	Has(ctx context.Context, service string) bool
	// Copy writes what a query selects; Has was true for all its services. What is wrong
	// with the query it may write, too.
	Copy(ctx context.Context, w io.Writer, q LogQuery) error
}

// The limits of a query are the kubelet's.
const (
	maxTail     = 100_000
	maxService  = 256
	maxServices = 4
	queryTime   = 30 * time.Second
)

// logQuery is a query as it was asked.
type logQuery struct {
	LogQuery
	files []string
}

// parseLogQuery reads the parameters of a request. It returns nil if they ask for nothing
// but the path. A name with a slash is that of a file.
func parseLogQuery(v url.Values) (*logQuery, error) {
	q := &logQuery{}
	for _, name := range v["query"] {
		switch {
		case strings.ContainsAny(name, `/\`):
			q.files = append(q.files, name)
		case strings.TrimSpace(name) != "":
			q.Services = append(q.Services, name)
		}
	}
	var errs []error
	if v.Has("query") && len(q.files)+len(q.Services) == 0 {
		errs = append(errs, errors.New("query: it is empty, want the name of a service or of a file"))
	}
	q.Pattern = v.Get("pattern")
	errs = append(errs, readTime(v, "sinceTime", &q.Since), readTime(v, "untilTime", &q.Until),
		readNumber(v, "boot", &q.Boot), readNumber(v, "tailLines", &q.Tail))
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(q.files)+len(q.Services) == 0 && q.LogOptions == (LogOptions{}) {
		return nil, nil
	}
	return q, nil
}

// readTime reads a parameter, which may be missing.
func readTime(v url.Values, name string, into *time.Time) (err error) {
	if text := v.Get(name); text != "" {
		if *into, err = time.Parse(time.RFC3339, text); err != nil {
			return fmt.Errorf("%s: %q is no time, want one like 2026-01-02T15:04:05Z", name, text)
		}
	}
	return nil
}

// readNumber reads a parameter, which may be missing.
func readNumber(v url.Values, name string, into **int) error {
	if text := v.Get(name); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%s: %q is no number", name, text)
		}
		*into = &n
	}
	return nil
}

// check says what cannot be answered of a query.
func (q *logQuery) check() error {
	errs := []error{q.checkSubject()}
	for _, s := range q.Services {
		if len(s) > maxService || strings.ContainsFunc(s, func(r rune) bool { return !strings.ContainsRune(serviceChars, r) }) {
			errs = append(errs, fmt.Errorf("query: %q is not the name of a service", s))
		}
	}
	return errors.Join(append(errs, q.LogOptions.check())...)
}

// checkSubject says what is wrong with what the logs are to be of.
func (q *logQuery) checkSubject() error {
	files, services := len(q.files), len(q.Services)
	switch {
	case files+services == 0:
		return errors.New("query: it is missing, the other parameters choose among the logs of a service")
	case files > 0 && services > 0:
		return errors.New("query: it has a file and a service, want one or the other")
	case files > 1:
		return fmt.Errorf("query: it has %d files, want one", files)
	case files == 1 && q.LogOptions != (LogOptions{}):
		return errors.New("query: a file is shown as it is, the other parameters are for services")
	case services > maxServices:
		return fmt.Errorf("query: it has %d services, want %d at most", services, maxServices)
	}
	return nil
}

// check says what is wrong with the options.
func (o *LogOptions) check() error {
	var errs []error
	if !o.Since.IsZero() && !o.Until.IsZero() && o.Since.After(o.Until) {
		errs = append(errs, errors.New("untilTime: it is before sinceTime"))
	}
	if o.Boot != nil && *o.Boot > 0 {
		errs = append(errs, fmt.Errorf("boot: %d is more than 0, the present one", *o.Boot))
	}
	if o.Tail != nil && (*o.Tail < 0 || *o.Tail > maxTail) {
		errs = append(errs, fmt.Errorf("tailLines: %d is not in 0 to %d", *o.Tail, maxTail))
	}
	if _, err := syntax.Parse(o.Pattern, syntax.Perl); err != nil {
		errs = append(errs, fmt.Errorf("pattern: %w", err))
	}
	return errors.Join(errs...)
}

// serviceChars are those of a name that no command takes for anything else.
const serviceChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:@"
