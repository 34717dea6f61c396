// Command workload is what the pods of a soak run: a web server that says what it sees,
// or a program that ends, in time or by itself.
//
//	workload                            answers at port 8080 until SIGTERM, and then what is under way
//	workload -for 2s -exit 3            ends after two seconds with exit code 3
//	workload check -flap 20s            ends with 0 in one span of 20 seconds and with 1 in the next
//
// It answers / with the pod's name, /file?path=… with a file, and /flap with 200 and 500
// in turn.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// patience is how long a client may take to send its request: longer than a machine stands
// still that has too much to do.
const patience = 5 * time.Minute

// drainLimit is how long answers that are under way may take after SIGTERM.
const drainLimit = 10 * time.Second

func main() {
	args, check := os.Args[1:], false
	if len(args) > 0 && args[0] == "check" {
		args, check = args[1:], true
	}
	flags := flag.NewFlagSet("workload", flag.ExitOnError)
	life := flags.Duration("for", 0, "how long to live; 0 is until SIGTERM")
	code := flags.Int("exit", 0, "how to end after that")
	flap := flags.Duration("flap", 20*time.Second, "how long one answer is given")
	_ = flags.Parse(args) // It ends the program on errors.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	switch {
	case check && !well(*flap):
		os.Exit(1)
	case check:
	case *life > 0:
		select {
		case <-ctx.Done():
		case <-time.After(*life):
			os.Exit(*code)
		}
	default:
		if err := serve(ctx, *flap); err != nil {
			log.Fatal(err)
		}
	}
}

// well says yes and no in turn, for a span of time each.
func well(span time.Duration) bool { return time.Now().UnixNano()/int64(span)%2 == 0 }

func serve(ctx context.Context, flap time.Duration) error {
	name, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("find the pod's name: %w", err)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", ":8080")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{Handler: handler(name, flap), ReadHeaderTimeout: patience}
	drained := make(chan error, 1)
	context.AfterFunc(ctx, func() {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainLimit)
		defer cancel()
		drained <- server.Shutdown(limited)
	})
	log.Printf("%s answers", name)
	if err := server.Serve(listener); ctx.Err() == nil {
		return err
	}
	return <-drained
}

func handler(name string, flap time.Duration) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, name) })
	mux.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
		data, err := os.ReadFile(r.URL.Query().Get("path"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		_, _ = w.Write(data)
	})
	mux.HandleFunc("/flap", func(w http.ResponseWriter, _ *http.Request) {
		if !well(flap) {
			http.Error(w, "not well", http.StatusInternalServerError)
		}
	})
	return mux
}
