package iptables

import (
	"bytes"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nodekit-go/nodekit/proxier"
)

// RestoreError says that iptables-restore has refused what it was given. Nothing of
// the table in question is in force then.
type RestoreError struct {
	// Command is the program.
	Command string
	// Status is its exit status.
	Status int
	// Line counts from 1; 0 means that the program did not tell. Text is that line.
	Line int
	Text string
	// Key is the ServicePort that the line is about; the zero Key if it is about none.
	Key proxier.Key
	// Message is what the program said.
	Message string
	// Locked tells that the program did not get the lock, because another one held it.
	Locked bool
	// Denied tells that the process lacks a privilege: errors.Is(err, fs.ErrPermission) then.
	Denied bool
}

// Unwrap returns what is missing, for want of privilege, and else nil.
func (e *RestoreError) Unwrap() error {
	if e.Denied {
		return errPrivilege
	}
	return nil
}

// Error returns what was refused, and of whom.
func (e *RestoreError) Error() string {
	s := fmt.Sprintf("%s: exit status %d: %s", e.Command, e.Status, e.Message)
	if e.Locked {
		s += ": another program holds the lock"
	}
	if e.Denied {
		s += ": " + errPrivilege.Error()
	}
	if e.Line > 0 {
		s += fmt.Sprintf(": line %d is %q", e.Line, e.Text)
	}
	if e.Key != (proxier.Key{}) {
		s += fmt.Sprintf(", of Service %s %s %s", e.Key.PortName, e.Key.Protocol, e.Key.Family)
	}
	return s
}

// resourceProblem is the exit status for what is not the fault of the input
// (RESOURCE_PROBLEM of include/xtables.h of iptables). iptables-nft has it for more.
const resourceProblem = 4

// complaint is what a program of iptables says about a failure.
type complaint struct {
	line    int // counts from 1; 0 means unknown
	locked  bool
	denied  bool // for want of privilege
	message string
}

// lineNumber finds "line 12 failed", "Error occurred at line: 12" and "line 12:".
var lineNumber = regexp.MustCompile(`(?m)(?:^|[ :])line:? ([0-9]{1,9})(?: failed|:|$)`)

// parseComplaint reads what was printed, in the spellings of iptables 1.8.
func parseComplaint(r Result) complaint {
	text := bytes.TrimSpace(r.Stderr)
	c := complaint{message: oneLine(text)}
	if m := lineNumber.FindSubmatch(text); m != nil {
		c.line, _ = strconv.Atoi(string(m[1])) // it has nine digits at most
	}
	c.locked = r.Status == resourceProblem && bytes.Contains(text, []byte("xtables lock"))
	c.denied = slices.ContainsFunc([]string{"Permission denied", "Operation not permitted", "you must be root"},
		func(s string) bool { return bytes.Contains(text, []byte(s)) })
	return c
}

// maxMessage is how much of what a program says goes into an error.
const maxMessage = 1000

func oneLine(text []byte) string {
	s := strings.Join(strings.Fields(strings.ToValidUTF8(string(text), "?")), " ")
	if len(s) > maxMessage {
		s = strings.ToValidUTF8(s[:maxMessage], "") + " …"
	}
	if s == "" {
		return "it said nothing"
	}
	return s
}

// commandError says that a program other than iptables-restore has failed.
func commandError(c Command, r Result) error {
	err := fmt.Errorf("%s %s: exit status %d: %s", c.Name, strings.Join(c.Args, " "), r.Status, oneLine(r.Stderr))
	if parseComplaint(r).denied {
		return fmt.Errorf("%w: %w", err, errPrivilege)
	}
	return err
}

// errPrivilege says what a process without privilege needs.
var errPrivilege = fmt.Errorf("%w: CAP_NET_ADMIN and CAP_NET_RAW in the network namespace are needed", fs.ErrPermission)
