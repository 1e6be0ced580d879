package berth

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DefaultHookTimeout is how long a hook may take that names no timeout (Velero's).
const DefaultHookTimeout = 30 * time.Second

// Hooks are commands to run in pods around their backup (Velero's BackupHooks).
type Hooks struct {
	Resources []ResourceHook `json:"resources,omitempty"`
}

// ResourceHook is a set of commands and the pods that they are for (Velero's
// BackupResourceHookSpec). An unset list or selector limits nothing.
type ResourceHook struct {
	Name               string                `json:"name"`
	IncludedNamespaces []string              `json:"includedNamespaces,omitempty"`
	ExcludedNamespaces []string              `json:"excludedNamespaces,omitempty"`
	IncludedResources  []string              `json:"includedResources,omitempty"`
	ExcludedResources  []string              `json:"excludedResources,omitempty"`
	LabelSelector      *metav1.LabelSelector `json:"labelSelector,omitempty"`
	// Pre run before the pod's ItemBlock is backed up, Post after it.
	Pre  []HookCommand `json:"pre,omitempty"`
	Post []HookCommand `json:"post,omitempty"`
}

// HookCommand is Velero's BackupResourceHook.
type HookCommand struct {
	Exec *ExecHook `json:"exec"`
}

// ExecHook is a command to run in a container of a pod.
type ExecHook struct {
	// Container is the name of one of the pod's; empty means its first one.
	Container string `json:"container,omitempty"`
	// Command is the program and its arguments; no shell reads it.
	Command []string `json:"command"`
	// OnError says what a failure means for the pod; empty means HookFail.
	OnError HookErrorMode `json:"onError,omitempty"`
	// Timeout is how long to wait for the command; zero means DefaultHookTimeout.
	Timeout metav1.Duration `json:"timeout,omitzero"`
}

// HookErrorMode says what the failure of a hook means for its pod.
type HookErrorMode string

const (
	// HookContinue backs the pod up all the same.
	HookContinue HookErrorMode = "Continue"
	// HookFail leaves the pod out of the backup where a hook before it fails,
	// and runs no further hook of that phase.
	HookFail HookErrorMode = "Fail"
)

// Fails says whether a failure of the hook keeps its pod out of the backup.
func (h ExecHook) Fails() bool { return h.OnError != HookContinue }

// MayTake is how long to wait for the hook's command.
func (h ExecHook) MayTake() time.Duration {
	if h.Timeout.Duration == 0 {
		return DefaultHookTimeout
	}
	return h.Timeout.Duration
}

// Pod names a pod of a cluster: another one of that name has another UID.
type Pod struct {
	Namespace, Name, UID string
}

func (p Pod) String() string { return p.Namespace + "/" + p.Name }

// problems lists everything that is wrong with the hooks; pointers are relative
// to the spec.
func (h Hooks) problems() []FieldError {
	var problems []FieldError
	for i, resource := range h.Resources {
		at := fmt.Sprintf("/hooks/resources/%d", i)
		if resource.Name == "" {
			problems = append(problems, FieldError{Pointer: at + "/name", Code: "invalid", Detail: "a hook needs a name"})
		}
		_, scope := ScopeOf(resource.IncludedNamespaces, resource.ExcludedNamespaces)
		for _, p := range scope {
			p.Pointer = at + p.Pointer
			problems = append(problems, p)
		}
		for _, p := range pairProblems(entryList{"includedResources", resource.IncludedResources}, entryList{"excludedResources", resource.ExcludedResources}) {
			p.Pointer = at + p.Pointer
			problems = append(problems, p)
		}
		problems = append(problems, selectorProblems(at+"/labelSelector", resource.LabelSelector)...)
		problems = append(problems, commandProblems(at+"/pre", resource.Pre)...)
		problems = append(problems, commandProblems(at+"/post", resource.Post)...)
	}
	return problems
}

func commandProblems(pointer string, commands []HookCommand) []FieldError {
	var problems []FieldError
	refuse := func(at, format string, args ...any) {
		problems = append(problems, FieldError{Pointer: at, Code: "invalid", Detail: fmt.Sprintf(format, args...)})
	}
	for i, command := range commands {
		at := fmt.Sprintf("%s/%d/exec", pointer, i)
		if command.Exec == nil {
			refuse(at, "a hook needs a command to execute")
			continue
		}
		if len(command.Exec.Command) == 0 {
			refuse(at+"/command", "a hook needs a command to execute")
		}
		for j, word := range command.Exec.Command {
			if strings.ContainsRune(word, 0) {
				refuse(fmt.Sprintf("%s/command/%d", at, j), noNUL)
			}
		}
		if mode := command.Exec.OnError; mode != "" && mode != HookContinue && mode != HookFail {
			refuse(at+"/onError", "must be %s or %s, not %q", HookContinue, HookFail, mode)
		}
		if command.Exec.Timeout.Duration < 0 {
			refuse(at+"/timeout", "a timeout cannot be negative")
		}
	}
	return problems
}
