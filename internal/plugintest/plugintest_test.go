package plugintest_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"

	"github.com/nodekit-go/nodekit/internal/leakcheck"
	"github.com/nodekit-go/nodekit/internal/plugintest"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// answers reports whether somebody listens at a socket.
func answers(socket string) bool {
	c, err := net.Dial("unix", socket)
	if err != nil {
		return false
	}
	return c.Close() == nil
}

func TestServerDiesAndComesAgain(t *testing.T) {
	dir, err := os.MkdirTemp("", "pt") //nolint:usetesting // paths of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "reg", "x.sock")
	serve := func() *plugintest.Server {
		s, err := plugintest.Serve(socket, func(*grpc.Server) {})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := serve()
	if !answers(socket) {
		t.Error("nobody listens at the socket")
	}
	s.Kill()
	if _, err := os.Lstat(socket); err != nil || answers(socket) {
		t.Errorf("after Kill the socket is %v, want one where nobody listens", err)
	}
	s = serve()
	if !answers(socket) {
		t.Error("nobody listens at the socket that was made anew")
	}
	s.Stop()
	if _, err := os.Lstat(socket); !os.IsNotExist(err) {
		t.Errorf("after Stop the socket is %v, want none", err)
	}
}

func TestSocketThatCannotBe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := plugintest.Serve(filepath.Join(file, "x.sock"), func(*grpc.Server) {}); err == nil {
		t.Error("a socket below a file is no error")
	}
}
