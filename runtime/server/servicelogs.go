package server

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
)

// asked returns the name of the file that is to be shown; false: the request is answered.
func (l hostLogs) asked(w http.ResponseWriter, r *http.Request) (name string, ok bool) {
	name = strings.Trim(strings.TrimPrefix(r.URL.Path, "/logs"), "/")
	params := r.URL.Query()
	if l.journal == nil {
		if params.Has("query") {
			fail(w, http.StatusNotImplemented, "queries of logs are switched off on this node (enableSystemLogQuery); ask for a file below /logs/, or use journalctl there")
		}
		return name, !params.Has("query")
	}
	q, err := parseLogQuery(params)
	switch {
	case err != nil:
		fail(w, http.StatusBadRequest, err.Error())
		return "", false
	case q == nil:
		return name, true
	case name != "":
		err = errors.New("a query has no path beside it, want /logs/?query=")
	default:
		err = l.check(q)
	}
	switch {
	case err != nil:
		fail(w, http.StatusNotAcceptable, err.Error())
	case len(q.files) == 1:
		return fileName(q.files[0]), true
	default:
		l.serveServices(w, r, q.LogQuery)
	}
	return "", false
}

// check says what cannot be answered of a query.
func (l hostLogs) check(q *logQuery) error {
	if err := q.check(); err != nil || len(q.files) == 0 {
		return err
	}
	f, _, err := l.open(fileName(q.files[0]))
	if err != nil {
		return fmt.Errorf("query: %w", err)
	}
	return f.Close()
}

// fileName returns the name of a file from a query, in which clients may write \ for /.
func fileName(asked string) string { return strings.Trim(strings.ReplaceAll(asked, `\`, "/"), "/") }

// serveServices answers with what services have logged.
func (l hostLogs) serveServices(w http.ResponseWriter, r *http.Request, q LogQuery) {
	ctx, cancel := context.WithTimeout(r.Context(), queryTime)
	defer cancel()
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	var out io.Writer = newProgress(w, l.idle)
	if r.Header.Get("Accept-Encoding") == "gzip" {
		h.Set("Content-Encoding", "gzip")
		packed := gzip.NewWriter(out)
		defer func() { _ = packed.Close() }() // who asked may have gone
		out = packed
	}
	l.copyQuery(ctx, out, q)
}

// copyQuery writes the logs of services. What cannot be had is said where it would be: the
// answer has begun.
func (l hostLogs) copyQuery(ctx context.Context, w io.Writer, q LogQuery) {
	var inJournal, inFiles []string
	for _, s := range q.Services {
		if l.journal.Has(ctx, s) {
			inJournal = append(inJournal, s)
		} else {
			inFiles = append(inFiles, s)
		}
	}
	if q.Services = inJournal; len(inJournal) > 0 {
		if err := l.journal.Copy(ctx, w, q); err != nil {
			fmt.Fprintf(w, "\nthe journal cannot be read: %v\n", err)
		}
	}
	if len(inFiles) > 0 && q.LogOptions != (LogOptions{}) {
		fmt.Fprintf(w, "\n%s: in files, of which everything is shown; ask without the other parameters\n", strings.Join(inFiles, ", "))
		return
	}
	for _, s := range inFiles {
		if err := l.copyFile(ctx, w, s); err != nil {
			fmt.Fprintf(w, "\n%s: %v\n", s, err)
		}
	}
}

// errNoLog says that a service has written none.
var errNoLog = errors.New("there is no log")

// copyFile writes the file of a service: its name, with .log, or that in a folder of its own.
func (l hostLogs) copyFile(ctx context.Context, w io.Writer, service string) error {
	for _, name := range []string{service, service + ".log", service + "/" + service + ".log"} {
		f, info, err := l.open(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return err
		case info.IsDir():
			f.Close()
			continue
		}
		stop := context.AfterFunc(ctx, func() { f.Close() })
		_, err = io.Copy(w, f)
		stop()
		f.Close()
		if ctx.Err() != nil {
			return fmt.Errorf("it takes too long: %w", ctx.Err())
		}
		return err
	}
	return errNoLog
}
