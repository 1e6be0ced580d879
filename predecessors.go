package berth

// predecessors finds, among backups that were put behind each other, those that
// overlap the next one. Backups are numbered from 0 as they are added. It does
// what comparing the next one with all before it does, and takes about as long
// as the claim has names.
type predecessors struct {
	claims []Claim
	// byName are the backups that claim a name, of those that claim some.
	byName map[string][]int
	// some counts those that claim some names, at least one.
	some int
	// wide are those that claim all but some.
	wide []int
	// holes are, by name, the wide ones that leave the name out, as places in wide.
	holes map[string]*holes
	// seen holds, by backup, the last question in which it was counted.
	seen     []int
	question int
}

// holes are the wide backups that leave one name out.
type holes struct {
	in []int
	// first starts the unbroken run of them that ends with the last of in.
	first int
}

func newPredecessors() *predecessors {
	return &predecessors{byName: map[string][]int{}, holes: map[string]*holes{}}
}

func (p *predecessors) add(c Claim) {
	number := len(p.claims)
	p.claims = append(p.claims, c)
	p.seen = append(p.seen, 0)
	switch {
	case c.All:
		p.addHoles(c.Names, len(p.wide))
		p.wide = append(p.wide, number)
	case len(c.Names) > 0:
		p.some++
		for _, name := range c.Names {
			p.byName[name] = append(p.byName[name], number)
		}
	}
}

func (p *predecessors) addHoles(names []string, place int) {
	for _, name := range names {
		h := p.holes[name]
		if h == nil {
			h = &holes{}
			p.holes[name] = h
		}
		if len(h.in) == 0 || h.in[len(h.in)-1] != place-1 {
			h.first = place
		}
		h.in = append(h.in, place)
	}
}

// last is the number of the last one that overlaps c; -1 if there is none.
func (p *predecessors) last(c Claim) int {
	if c.All {
		return p.lastBeforeWide(c)
	}
	last := -1
	for _, name := range c.Names {
		if claimants := p.byName[name]; len(claimants) > 0 {
			last = max(last, claimants[len(claimants)-1])
		}
		if place := p.lastWideWith(name); place >= 0 {
			last = max(last, p.wide[place])
		}
	}
	return last
}

// lastWideWith is the place of the last wide one that claims the name.
func (p *predecessors) lastWideWith(name string) int {
	last := len(p.wide) - 1
	if h := p.holes[name]; h != nil && h.in[len(h.in)-1] == last {
		return h.first - 1
	}
	return last
}

// lastBeforeWide walks back to the wide one before, which always overlaps: so
// that over all wide ones each backup is passed once.
func (p *predecessors) lastBeforeWide(c Claim) int {
	for number := len(p.claims) - 1; number >= 0; number-- {
		if p.claims[number].Overlaps(c) {
			return number
		}
	}
	return -1
}

// count is how many overlap c.
func (p *predecessors) count(c Claim) int {
	if c.All {
		return len(p.wide) + p.some - p.countInside(c)
	}
	return p.countWide(c.Names) + p.countSome(c.Names)
}

// countInside counts those of some names that all fall into the holes of c.
func (p *predecessors) countInside(c Claim) int {
	p.question++
	inside := 0
	for _, hole := range c.Names {
		for _, number := range p.byName[hole] {
			if p.firstSeen(number) && !p.claims[number].Overlaps(c) {
				inside++
			}
		}
	}
	return inside
}

// countWide counts the wide ones that claim one of the names at least.
func (p *predecessors) countWide(names []string) int {
	if len(names) == 0 {
		return 0
	}
	fewest := []int(nil)
	for i, name := range names {
		h := p.holes[name]
		if h == nil {
			return len(p.wide)
		}
		if i == 0 || len(h.in) < len(fewest) {
			fewest = h.in
		}
	}
	if len(names) == 1 {
		return len(p.wide) - len(fewest)
	}
	leaveAllOut := 0
	for _, place := range fewest {
		if !p.claims[p.wide[place]].Overlaps(Claim{Names: names}) {
			leaveAllOut++
		}
	}
	return len(p.wide) - leaveAllOut
}

// countSome counts those of some names that claim one of these.
func (p *predecessors) countSome(names []string) int {
	if len(names) == 1 {
		return len(p.byName[names[0]])
	}
	p.question++
	count := 0
	for _, name := range names {
		for _, number := range p.byName[name] {
			if p.firstSeen(number) {
				count++
			}
		}
	}
	return count
}

// firstSeen says whether this question has not met the backup before.
func (p *predecessors) firstSeen(number int) bool {
	if p.seen[number] == p.question {
		return false
	}
	p.seen[number] = p.question
	return true
}
