// Command web answers every HTTP request, and every UDP datagram, with the name
// of the pod it runs in. It ends at SIGTERM.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

func main() {
	port := flag.Int("port", 8080, "port to answer at, TCP and UDP")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *port); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, port int) error {
	name, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("find the pod's name: %w", err)
	}
	address := net.JoinHostPort("", strconv.Itoa(port))
	datagrams, err := net.ListenPacket("udp", address)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{
		Addr:              address,
		ReadHeaderTimeout: 5 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintln(w, name)
		}),
	}
	stopped := context.AfterFunc(ctx, func() {
		if err := errors.Join(server.Close(), datagrams.Close()); err != nil {
			log.Print(err)
		}
	})
	defer stopped()
	log.Printf("%s answers at port %d", name, port)
	failed := make(chan error, 2)
	go func() { failed <- echo(datagrams, name) }()
	go func() { failed <- server.ListenAndServe() }()
	err = <-failed
	if ctx.Err() != nil {
		log.Printf("%s ends", name)
		return nil
	}
	return err
}

// echo answers datagrams until the socket is closed.
func echo(socket net.PacketConn, name string) error {
	buffer := make([]byte, 1500)
	for {
		_, peer, err := socket.ReadFrom(buffer)
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("receive: %w", err)
		}
		if _, err := socket.WriteTo([]byte(name+"\n"), peer); err != nil {
			log.Printf("answer %s: %v", peer, err)
		}
	}
}
