// Command life lives as its arguments say, so that tests can watch what a node
// does with a container: how it starts it, stops it and starts it again.
//
//	life -for 2s -exit 3                ends after two seconds with exit code 3
//	life -ignore-term                   lives on after SIGTERM, until SIGKILL
//	life -journal /out/journal          appends a line per event to a file
//	life -count 10000                   prints so many numbered lines, then goes on
//	life -print-env -read /etc/hosts    prints what it sees, then goes on
//	life list /etc                      prints a line per file: mode, owner, group, content
//	life get http://10.96.0.10 30       prints the answers to 30 requests and ends
//
// Everything it prints starts with the name of the event.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// life is what the arguments say.
type life struct {
	duration   time.Duration
	code       int
	ignoreTerm bool
	journal    string
	printEnv   bool
	read       string
	write      string
	count      int
}

func main() {
	if len(os.Args) == 4 && os.Args[1] == "get" {
		os.Exit(getAll(os.Args[2], os.Args[3]))
	}
	if len(os.Args) == 3 && os.Args[1] == "list" {
		os.Exit(list(os.Args[2]))
	}
	var l life
	flag.DurationVar(&l.duration, "for", 0, "how long to live; 0 means until a signal")
	flag.IntVar(&l.code, "exit", 0, "exit code")
	flag.BoolVar(&l.ignoreTerm, "ignore-term", false, "live on after SIGTERM")
	flag.StringVar(&l.journal, "journal", "", "file to append events to")
	flag.BoolVar(&l.printEnv, "print-env", false, "print the environment, a variable per line")
	flag.StringVar(&l.read, "read", "", "file to print")
	flag.StringVar(&l.write, "write", "", "FILE=TEXT to write at the start")
	flag.IntVar(&l.count, "count", 0, "how many numbered lines to print at the start")
	flag.Parse()
	os.Exit(l.run())
}

func (l life) run() int {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	l.tell("start", fmt.Sprintf("%q", flag.Args()))
	if l.printEnv {
		for _, variable := range os.Environ() {
			l.tell("env", variable)
		}
	}
	if file, text, ok := strings.Cut(l.write, "="); ok {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			l.tell("error", err.Error())
		}
	}
	if l.read != "" {
		data, err := os.ReadFile(l.read)
		if err != nil {
			l.tell("error", err.Error())
		}
		l.tell("read", string(data))
	}
	for n := 1; n <= l.count; n++ {
		l.tell("line", strconv.Itoa(n))
		if n%100 == 0 {
			time.Sleep(10 * time.Millisecond)
		}
	}
	return l.await(signals)
}

// await lives until the time is up or a signal ends it.
func (l life) await(signals <-chan os.Signal) int {
	var timeUp <-chan time.Time
	if l.duration > 0 {
		timeUp = time.After(l.duration)
	}
	for {
		select {
		case <-timeUp:
			l.tell("end", fmt.Sprint(l.code))
			return l.code
		case sig := <-signals:
			l.tell("signal", sig.String())
			if !l.ignoreTerm {
				l.tell("end", fmt.Sprint(l.code))
				return l.code
			}
		}
	}
}

// tell prints an event, and adds it with the time to the journal.
func (l life) tell(event, text string) {
	fmt.Printf("%s %s\n", event, text)
	if l.journal == "" {
		return
	}
	file, err := os.OpenFile(l.journal, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		fmt.Printf("error %v\n", err)
		return
	}
	defer file.Close()
	fmt.Fprintf(file, "%s %s %s\n", time.Now().UTC().Format(time.RFC3339Nano), event, text)
}

// list prints what is below a folder, through links, without names that begin with two
// dots.
func list(folder string) int {
	info, err := os.Stat(folder)
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	owner, _ := info.Sys().(*syscall.Stat_t)
	fmt.Println(info.Mode(), owner.Uid, owner.Gid, folder, content(folder, info))
	if !info.IsDir() {
		return 0
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	code := 0
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "..") {
			code = max(code, list(filepath.Join(folder, e.Name())))
		}
	}
	return code
}

// content returns the beginning of a small file.
func content(file string, info os.FileInfo) string {
	if !info.Mode().IsRegular() {
		return ""
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return strconv.Quote(string(data[:min(len(data), 200)]))
}

// getAll sends count requests, each with a connection of its own, and prints the
// answers.
func getAll(url, count string) int {
	n, err := strconv.Atoi(count)
	if err != nil {
		fmt.Println("error", err)
		return 2
	}
	for range n {
		if code := get(url); code != 0 {
			return code
		}
	}
	return 0
}

// get prints the body of an HTTP answer, or of a UDP answer for udp:// addresses.
func get(url string) int {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	var (
		body []byte
		err  error
	)
	if address, ok := strings.CutPrefix(url, "udp://"); ok {
		body, err = ask(ctx, address)
	} else {
		body, err = fetch(ctx, url)
	}
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	fmt.Print(string(body))
	return 0
}

func fetch(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return io.ReadAll(response.Body)
}

func ask(ctx context.Context, address string) ([]byte, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "udp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return nil, err
		}
	}
	if _, err := conn.Write([]byte("name?")); err != nil {
		return nil, err
	}
	buffer := make([]byte, 1500)
	n, err := conn.Read(buffer)
	return buffer[:n], err
}
