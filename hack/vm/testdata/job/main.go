// Command job is what the tests of vm run in a guest: it does what its first
// argument says.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

func main() {
	switch what := os.Args[1]; what {
	case "exit":
		status, err := strconv.Atoi(os.Args[2])
		if err != nil {
			panic(err)
		}
		os.Exit(status)
	case "arguments":
		for _, a := range os.Args[2:] {
			fmt.Printf("%q\n", a)
		}
	case "leave":
		out := os.Getenv("NODEKIT_VM_OUT")
		if err := os.MkdirAll(filepath.Join(out, "folder"), 0o755); err != nil {
			panic(err)
		}
		if err := os.WriteFile(filepath.Join(out, "folder", "file"), []byte(os.Args[2]), 0o644); err != nil {
			panic(err)
		}
	case "talk":
		line := strings.Repeat("x", 1023) + "\n"
		for range 2048 {
			fmt.Print(line)
		}
	case "hang":
		fmt.Println("hanging")
		time.Sleep(time.Hour)
	case "crash":
		if err := os.WriteFile("/proc/sysrq-trigger", []byte("c"), 0); err != nil {
			panic(err)
		}
		time.Sleep(time.Hour)
	case "read":
		for _, name := range os.Args[2:] {
			content, err := os.ReadFile(name)
			if err != nil {
				panic(err)
			}
			os.Stdout.Write(content)
		}
	default:
		fmt.Fprintln(os.Stderr, "job: it cannot", what)
		os.Exit(2)
	}
}
