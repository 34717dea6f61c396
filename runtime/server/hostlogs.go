package server

import (
	"errors"
	"fmt"
	"html"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// hostLogs shows the files of a folder, and of folders below it.
type hostLogs struct {
	root string
	// journal is nil where queries are switched off.
	journal Journal
	idle    time.Duration
}

// errNoFile is the error of what is neither a regular file nor a folder, such as a pipe.
var errNoFile = errors.New("neither a file nor a folder")

// ServeHTTP answers with a file, with what is in a folder, or a query.
func (l hostLogs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, ok := l.asked(w, r)
	if !ok {
		return
	}
	f, info, err := l.open(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		fail(w, http.StatusNotFound, "there is no file "+name)
		return
	case err != nil:
		fail(w, http.StatusForbidden, err.Error())
		return
	}
	defer f.Close()
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if info.IsDir() {
		serveFolder(w, r, f)
		return
	}
	// Who writes to these files may write anything; no browser is to make something of it.
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	http.ServeContent(newProgress(w, l.idle), r, "", info.ModTime(), f)
}

// open opens a file or folder.
func (l hostLogs) open(name string) (*os.File, fs.FileInfo, error) {
	if name == "" {
		name = "."
	}
	f, err := openBeneath(l.root, name)
	if err != nil {
		return nil, nil, fmt.Errorf("open %s: %w", name, err)
	}
	info, err := f.Stat()
	if err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		err = errNoFile
	}
	if err != nil {
		f.Close()
		return nil, nil, fmt.Errorf("open %s: %w", name, err)
	}
	return f, info, nil
}

// serveFolder lists a folder with links to what is in it.
func serveFolder(w http.ResponseWriter, r *http.Request, f *os.File) {
	if !strings.HasSuffix(r.URL.Path, "/") {
		here := url.URL{Path: "./" + path.Base(r.URL.Path) + "/"}
		w.Header().Set("Location", here.String()) // as seen by who came through a proxy
		w.WriteHeader(http.StatusMovedPermanently)
		return
	}
	entries, err := f.ReadDir(-1)
	if err != nil {
		fail(w, http.StatusInternalServerError, err.Error())
		return
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprintln(w, "<!doctype html>\n<pre>")
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() {
			name += "/"
		}
		link := url.URL{Path: "./" + name}
		fmt.Fprintf(w, "<a href=\"%s\">%s</a>\n", html.EscapeString(link.String()), html.EscapeString(name))
	}
	fmt.Fprintln(w, "</pre>")
}
