package certs_test

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/nodekit-go/nodekit/runtime/server/certs"
)

// A server whose certificate and authorities are files that somebody else replaces.
func Example() {
	dir, err := os.MkdirTemp("", "certs")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	cert, key, err := certs.SelfSigned(time.Now(), "node-a")
	if err != nil {
		fmt.Println(err)
		return
	}
	files := map[string][]byte{"tls.crt": cert, "tls.key": key, "ca.crt": cert}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			fmt.Println(err)
			return
		}
	}
	if err := handshake(dir); err != nil {
		fmt.Println(err)
	}
	// Output: the certificate is for [node-a]
}

func handshake(dir string) error {
	log := slog.New(slog.DiscardHandler)
	pair, err := certs.OpenPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), log)
	if err != nil {
		return err
	}
	authorities, err := certs.OpenPool(filepath.Join(dir, "ca.crt"), log)
	if err != nil {
		return err
	}
	config := certs.Server(certs.Config{Certificate: pair.Certificate, ClientCAs: authorities.Current})

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{TLSConfig: config, ReadHeaderTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(tls.NewListener(l, config)) }()
	defer func() {
		_ = server.Close()
		<-ended
	}()
	conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{RootCAs: authorities.Current(), ServerName: "node-a"})
	if err != nil {
		return err
	}
	defer conn.Close()
	fmt.Println("the certificate is for", conn.ConnectionState().PeerCertificates[0].DNSNames)
	return nil
}
