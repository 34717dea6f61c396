package server

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Status is what /statusz tells of the agent, beside the version of Go and the paths.
type Status struct {
	// Started is when the process began.
	Started time.Time
	// Version is that of the program, and Emulates is the release of Kubernetes that it
	// behaves as, such as 1.37; empty: it is not shown.
	Version, Emulates string
}

// zpage is a page that tells programs and people the same
// (https://kubernetes.io/docs/reference/instrumentation/zpages/).
type zpage struct {
	// kind is that of the object, in group config.k8s.io.
	kind   string
	object func(zobject) any
	text   func(io.Writer)
}

// zobject is what the objects of all these pages begin with.
type zobject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
}

const (
	// agentName is what the pages call the agent, as in a kubelet.
	agentName  = "kubelet"
	zpageGroup = "config.k8s.io"
	// zpageVersion is the version of the objects, and oldZpageVersion the one before it.
	zpageVersion, oldZpageVersion = "v1beta1", "v1alpha1"
	textType                      = "text/plain"
)

// addZpages adds /flagz and /statusz, which lists the paths that are there by then.
func (s *Server) addZpages(mux *routeMux) {
	if flags := s.cfg.Pages.Flags; flags != nil {
		mux.Handle("GET /flagz", flagz(flags))
	}
	if s.cfg.Pages.Status != nil {
		mux.Handle("GET /statusz", statusz(*s.cfg.Pages.Status, topPaths(mux.routes)))
	}
}

// topPaths returns the first parts of the paths of routes.
func topPaths(routes []Route) []string {
	tops := map[string]bool{"/statusz": true}
	for _, r := range routes {
		top, _, _ := strings.Cut(strings.TrimPrefix(r.Path, "/"), "/")
		tops["/"+top] = true
	}
	return slices.Sorted(maps.Keys(tops))
}

func statusz(st Status, paths []string) zpage {
	type object struct {
		zobject          `json:",inline"`
		StartTime        metav1.Time `json:"startTime"`
		UptimeSeconds    int64       `json:"uptimeSeconds"`
		GoVersion        string      `json:"goVersion"`
		BinaryVersion    string      `json:"binaryVersion"`
		EmulationVersion string      `json:"emulationVersion,omitempty"`
		Paths            []string    `json:"paths"`
	}
	up := func() time.Duration { return max(0, time.Since(st.Started)) }
	return zpage{
		kind: "Statusz",
		object: func(z zobject) any {
			return object{z, metav1.NewTime(st.Started), int64(up().Seconds()), goruntime.Version(), st.Version, st.Emulates, paths}
		},
		text: func(w io.Writer) {
			took := int(up().Seconds())
			fmt.Fprintf(w, "\nStarted: %s\nUp: %d hr %02d min %02d sec\nGo version: %s\nBinary version: %s\n",
				st.Started.Format(time.UnixDate), took/3600, took/60%60, took%60, goruntime.Version(), st.Version)
			if st.Emulates != "" {
				fmt.Fprintf(w, "Emulation version: %s\n", st.Emulates)
			}
			fmt.Fprintf(w, "Paths: %s\n", strings.Join(paths, " "))
		},
	}
}

func flagz(flags func() map[string]string) zpage {
	type object struct {
		zobject `json:",inline"`
		Flags   map[string]string `json:"flags,omitempty"`
	}
	return zpage{
		kind:   "Flagz",
		object: func(z zobject) any { return object{z, flags()} },
		text: func(w io.Writer) {
			all := flags()
			for _, name := range slices.Sorted(maps.Keys(all)) {
				fmt.Fprintf(w, "%s=%s\n", name, all[name])
			}
		},
	}
}

// ServeHTTP answers in text, or with an object where a client asks for one.
func (p zpage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	mediaType, version, err := p.wanted(r.Header.Get("Accept"))
	if err != nil {
		fail(w, http.StatusNotAcceptable, err.Error())
		return
	}
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	if mediaType == textType {
		h.Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprintf(w, "\n%s %s\nWarning: this page is for people, its form may change at any time.\n", agentName, strings.ToLower(p.kind))
		p.text(w)
		return
	}
	z := zobject{ObjectMeta: metav1.ObjectMeta{Name: agentName}}
	z.Kind, z.APIVersion = p.kind, zpageGroup+"/"+version
	data, err := json.Marshal(p.object(z))
	if err != nil {
		fail(w, http.StatusInternalServerError, fmt.Sprintf("encode the answer: %v", err))
		return
	}
	if version == oldZpageVersion {
		h.Set("Warning", fmt.Sprintf("299 - %q", "version "+oldZpageVersion+" of this page is deprecated, ask for "+zpageVersion))
	}
	h.Set("Content-Type", mediaType) // JSON is YAML, too
	_, _ = w.Write(data)             // who asked may have gone
}

// errUnacceptable is the error of what no answer can be given in.
var errUnacceptable = errors.New("none of the accepted types can be had, want text/plain, or application/json or application/yaml")

// wanted returns the type of the answer and, unless that is text, the version of the object.
// Objects have to be asked for by group, version and kind.
func (p zpage) wanted(accept string) (mediaType, version string, err error) {
	if strings.TrimSpace(accept) == "" {
		return textType, "", nil
	}
	for _, c := range clauses(accept) {
		switch c.mediaType {
		case textType, "text/*", "*/*":
			if c.params["as"] == "" && c.params["g"] == "" && c.params["v"] == "" {
				return textType, "", nil
			}
		case "application/json", "application/yaml":
			v := c.params["v"]
			if c.params["as"] == p.kind && c.params["g"] == zpageGroup && (v == zpageVersion || v == oldZpageVersion) {
				return c.mediaType, v, nil
			}
		}
	}
	return "", "", fmt.Errorf("%w with ;as=%s;v=%s;g=%s", errUnacceptable, p.kind, zpageVersion, zpageGroup)
}

// clause is one type that a client accepts.
type clause struct {
	mediaType string
	params    map[string]string
	quality   float64
}

// clauses reads a header Accept, the best first. What cannot be read is passed over.
func clauses(accept string) []clause {
	var out []clause
	for part := range strings.SplitSeq(accept, ",") {
		mediaType, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		c := clause{mediaType, params, 1}
		if q, err := strconv.ParseFloat(params["q"], 64); err == nil {
			c.quality = q
		}
		if c.quality > 0 {
			out = append(out, c)
		}
	}
	slices.SortStableFunc(out, func(a, b clause) int { return cmp.Compare(b.quality, a.quality) })
	return out
}
