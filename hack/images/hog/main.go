// Command hog takes more than others may like, so that tests can watch what a node does
// about it. Then it lives until it is asked to end.
//
//	hog -memory 300            takes 300 MiB of memory
//	hog -memory 300 -child     has a child take them, and lives on without it
//	hog -file /v/f -disk 100   writes 100 MiB to a file
//	hog -see                   prints the limit of memory that it sees
//
// Everything it prints starts with the name of the event.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
)

func main() {
	memory := flag.Int("memory", 0, "MiB of memory to take")
	child := flag.Bool("child", false, "have a child take the memory")
	file := flag.String("file", "", "file to write")
	disk := flag.Int("disk", 0, "MiB to write")
	see := flag.Bool("see", false, "print the limit of memory")
	flag.Parse()
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	if *see {
		fmt.Println("limit", limit())
	}
	if *file != "" {
		fmt.Println("wrote", *disk, write(*file, *disk))
	}
	var taken [][]byte
	switch {
	case *child:
		fmt.Println("child", beget(*memory))
	default:
		taken = take(*memory)
	}
	<-ended
	fmt.Println("end", len(taken))
}

// limit returns the limit of memory of the control group that is seen at the usual place.
func limit() string {
	for _, name := range []string{"memory.max", "memory/memory.limit_in_bytes"} {
		if raw, err := os.ReadFile("/sys/fs/cgroup/" + name); err == nil {
			return strings.TrimSpace(string(raw))
		}
	}
	return "unknown"
}

// take takes memory, page by page, and returns it.
func take(mib int) [][]byte {
	var taken [][]byte
	for range mib {
		taken = append(taken, bytes.Repeat([]byte{1}, 1<<20))
	}
	fmt.Println("took", mib)
	return taken
}

// write fills a file.
func write(name string, mib int) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	block := bytes.Repeat([]byte{1}, 1<<20)
	for range mib {
		if _, err := f.Write(block); err != nil {
			_ = f.Close()
			return err
		}
	}
	return f.Close()
}

// beget has a child take memory and returns how that ended: with nil it never does.
func beget(mib int) error {
	return exec.Command(os.Args[0], "-memory", strconv.Itoa(mib)).Run()
}
