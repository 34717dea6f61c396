package probes_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/nodekit-go/nodekit/probes"
	"github.com/nodekit-go/nodekit/probes/probestest"
)

func TestTCP(t *testing.T) {
	closed := make(chan struct{})
	ends := make(chan error, 1)
	open := probestest.Raw(t, func(conn net.Conn) {
		<-closed
		_, err := conn.Read(make([]byte, 1))
		ends <- err
	})
	res, err := probes.TCP{Addr: open}.Probe(within(t, long))
	close(closed)
	if err != nil || res.Outcome != probes.Success {
		t.Errorf("open port: %v, %v", res, err)
	}
	if err := <-ends; !errors.Is(err, io.EOF) {
		t.Errorf("the server read %v, want an orderly end", err)
	}
	res, err = probes.TCP{Addr: probestest.Unused(t)}.Probe(within(t, long))
	if err != nil || res.Outcome != probes.Failure || !strings.Contains(res.Message, "connection refused") {
		t.Errorf("closed port: %v, %v", res, err)
	}
	res, err = probes.TCP{Addr: "no.such.host.invalid:80"}.Probe(within(t, long))
	if err != nil || res.Outcome != probes.Failure {
		t.Errorf("unknown host: %v, %v", res, err)
	}
}
