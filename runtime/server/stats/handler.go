package stats

import (
	"encoding/json"
	"net/http"
	"strconv"

	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// Handler serves the Summary as JSON to GET and POST, whatever the path. With the parameter
// only_cpu_and_memory=true it leaves the rest out, which is much cheaper.
func (c *Collector) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodPost {
			w.Header().Set("Allow", "GET, POST")
			http.Error(w, "405: Method Not Allowed", http.StatusMethodNotAllowed)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		if err := r.ParseForm(); err != nil {
			http.Error(w, "parse form: "+err.Error(), http.StatusBadRequest)
			return
		}
		little := false
		if v := r.Form.Get("only_cpu_and_memory"); v != "" {
			var err error
			if little, err = strconv.ParseBool(v); err != nil {
				http.Error(w, "only_cpu_and_memory is "+strconv.Quote(v)+", want true or false", http.StatusBadRequest)
				return
			}
		}
		var s *statsapi.Summary
		if little {
			s = c.CPUAndMemory(r.Context())
		} else {
			s = c.Summary(r.Context())
		}
		w.Header().Set("Content-Type", "application/json")
		e := json.NewEncoder(w)
		e.SetIndent("", " ")
		_ = e.Encode(s) // the client is gone
	})
}

// maxForm bounds the body of a request, in bytes.
const maxForm = 1 << 16
