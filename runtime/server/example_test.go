package server_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/runtime/server"
)

// memory is an agent whose containers are in memory: it has no CRI runtime, and logs are all
// that it can show of them.
type memory struct{ pod *corev1.Pod }

// List returns all pods.
func (m memory) List(context.Context) ([]*corev1.Pod, error) { return []*corev1.Pod{m.pod}, nil }

// Find returns a pod.
func (m memory) Find(namespace, name string) (*corev1.Pod, bool) {
	return m.pod, m.pod.Namespace == namespace && m.pod.Name == name
}

// CopyLog writes the log of a container.
func (m memory) CopyLog(_ context.Context, w io.Writer, c server.Container, _ *corev1.PodLogOptions) error {
	_, err := fmt.Fprintf(w, "%s of %s started\n", c.Name, c.Pod.Name)
	return err
}

// Example shows the log of a container of an agent that is no kubelet.
func Example() {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}}}
	pod.Name, pod.Namespace = "web", "default"
	agent := memory{pod}

	s, err := server.New(server.Config{
		Pods:       agent,
		Containers: server.Containers{Logs: agent},
		Protect:    onlyWith("Bearer of-the-api-server"),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, token := range []string{"", "of-the-api-server"} {
		fmt.Println(answerTo(s.Handler(), "/containerLogs/default/web/app", token))
	}
	// Output:
	// 401 Unauthorized
	// 200 app of web started
}

// onlyWith lets those in who have a token. Package runtime/server/auth asks the API server.
func onlyWith(authorization string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != authorization {
				http.Error(w, "Unauthorized", http.StatusUnauthorized)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// answerTo asks as a client with a token does.
func answerTo(h http.Handler, path, token string) (code int, text string) {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, path, http.NoBody)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, strings.TrimSpace(w.Body.String())
}
