package backup

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-backup/berth"
)

// hookAnnotation is part of the key of every annotation that is a hook (Velero's).
const hookAnnotation = "hook.backup.velero.io/"

// hookPhase says whether a hook runs before or after its block is backed up.
type hookPhase string

const (
	preHook  hookPhase = "pre"
	postHook hookPhase = "post"
)

// namedHook is a hook with the name that messages give it.
type namedHook struct {
	name string
	berth.ExecHook
}

// specHook is a hook of the spec, its lists and its selector read.
type specHook struct {
	berth.ResourceHook
	scope    berth.Scope
	forPods  bool
	selector labels.Selector
}

// specHooksOf reads the hooks of a spec. They concern pods alone: one whose lists
// of resources leave pods out is for nothing, as in Velero.
func specHooksOf(hooks berth.Hooks, all []resource) ([]specHook, error) {
	var read []specHook
	for _, h := range hooks.Resources {
		scope, problems := berth.ScopeOf(h.IncludedNamespaces, h.ExcludedNamespaces)
		if len(problems) > 0 {
			return nil, fmt.Errorf("hook %s: %s", h.Name, problems[0].Detail)
		}
		selector := labels.Everything()
		if h.LabelSelector != nil {
			var err error
			if selector, err = metav1.LabelSelectorAsSelector(h.LabelSelector); err != nil {
				return nil, fmt.Errorf("hook %s: label selector: %w", h.Name, err)
			}
		}
		include, _ := selectionOf(h.IncludedResources, all)
		exclude, _ := selectionOf(h.ExcludedResources, all)
		pods := resource{version: "v1", plural: resourcePods}
		read = append(read, specHook{
			ResourceHook: h, scope: scope, selector: selector,
			forPods: !exclude.has(pods) && (include.empty() || include.has(pods)),
		})
	}
	return read, nil
}

// hooksFor are the hooks of one phase for a pod, in the order in which they run:
// the pod's own annotations, or else whatever the spec has for it. Warnings tell
// of annotations that cannot be read as they are written.
func hooksFor(phase hookPhase, h head, annotations map[string]string, spec []specHook) (hooks []namedHook, warnings []string) {
	if own, warnings := annotatedHook(phase, annotations); own != nil {
		return []namedHook{*own}, warnings
	}
	for _, s := range spec {
		if !s.forPods || !s.scope.Contains(h.namespace) || !s.selector.Matches(labels.Set(h.labels())) {
			continue
		}
		commands := s.Pre
		if phase == postHook {
			commands = s.Post
		}
		for _, c := range commands {
			if c.Exec != nil {
				hooks = append(hooks, namedHook{s.Name, *c.Exec})
			}
		}
	}
	return hooks, nil
}

// annotatedHook reads a pod's annotations "pre.hook.backup.velero.io/command" and
// so on; without the prefix they mean pre, as Velero once wrote them.
func annotatedHook(phase hookPhase, annotations map[string]string) (*namedHook, []string) {
	get := func(key string) string {
		if value := annotations[string(phase)+"."+hookAnnotation+key]; value != "" || phase == postHook {
			return value
		}
		return annotations[hookAnnotation+key]
	}
	command := get("command")
	if command == "" {
		return nil, nil
	}
	var warnings []string
	hook := &namedHook{name: "<from-annotation>", ExecHook: berth.ExecHook{Container: get("container"), Command: wordsOf(command)}}
	switch mode := berth.HookErrorMode(get("on-error")); mode {
	case "", berth.HookContinue, berth.HookFail:
		hook.OnError = mode
	default:
		warnings = append(warnings, fmt.Sprintf("%s hook: on-error is %q, neither %s nor %s: %s is meant", phase, mode, berth.HookContinue, berth.HookFail, berth.HookFail))
	}
	if timeout := get("timeout"); timeout != "" {
		d, err := time.ParseDuration(timeout)
		if err != nil || d < 0 {
			warnings = append(warnings, fmt.Sprintf("%s hook: %q is no timeout: %s is meant", phase, timeout, berth.DefaultHookTimeout))
		} else {
			hook.Timeout.Duration = d
		}
	}
	return hook, warnings
}

// wordsOf reads a command of an annotation: a JSON array of words, or one word.
func wordsOf(command string) []string {
	if strings.HasPrefix(strings.TrimSpace(command), "[") {
		var words []string
		if json.Unmarshal([]byte(command), &words) == nil && len(words) > 0 {
			return words
		}
	}
	return []string{command}
}

// hasHooks says whether a pod has a hook of either phase.
func hasHooks(h head, annotations map[string]string, spec []specHook) bool {
	for _, phase := range []hookPhase{preHook, postHook} {
		if hooks, _ := hooksFor(phase, h, annotations, spec); len(hooks) > 0 {
			return true
		}
	}
	return false
}
