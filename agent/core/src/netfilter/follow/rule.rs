//! One rule: its expressions one after the other, and what becomes of the packet.

use super::bits::{Doubt, Match, Registers};
use super::state::{Cause, End, Stage, State, Uncertain};
use super::walk::{At, Walk};
use super::worlds::Worlds;
use crate::netfilter::expr::{Data, Dest, Expr, Reg, Verdict};

/// What an expression does.
pub(super) enum Step<'a> {
    /// The rule goes on if it matches.
    Go(Match),
    /// The rule ends here.
    Done(Worlds),
    /// It matches or not, or does something of its own that ends the packet.
    Anything,
    /// A map: one of these values into the destination; or nothing is found and the rule ends without a match.
    Fork { to: Dest, ways: Vec<&'a Data>, nothing: bool, doubt: Option<Doubt> },
}

/// Values of a map that are followed one by one.
const WAYS: usize = 48;

impl<'a> Walk<'_, 'a> {
    /// What becomes of the packet; none if it goes on unchanged.
    pub(super) fn rule(&mut self, at: At<'a>, rule: &'a crate::netfilter::ruleset::Rule, state: &State) -> Option<Worlds> {
        let worlds = self.exprs(at, &rule.exprs, 0, Registers::new(), state.clone())?;
        (!worlds.is_only(Stage::Live, state)).then_some(worlds)
    }

    /// The expressions from one on. None: no match at the very first doubt-free expression that fails, nothing changed.
    fn exprs(&mut self, at: At<'a>, exprs: &'a [Expr], from: usize, mut regs: Registers, mut state: State) -> Option<Worlds> {
        let untouched = state.clone();
        let mut exits: Vec<(Worlds, Uncertain)> = Vec::new();
        let mut result = None;
        for (number, expr) in exprs.iter().enumerate().skip(from) {
            let uncertain = |doubt| Uncertain { doubt, cause: Cause::Expression(at.site, number) };
            // These two change the packet only if they match.
            let before = matches!(expr, Expr::Tproxy { .. } | Expr::Match(_)).then(|| state.clone());
            match self.step(at, number, expr, &mut regs, &mut state) {
                Step::Go(Match::Yes) => {}
                Step::Go(Match::No) => {
                    if exits.is_empty() && state == untouched {
                        return None;
                    }
                    result = Some(Worlds::at(Stage::Live, state.clone()));
                    break;
                }
                Step::Go(Match::Maybe(doubt)) => {
                    let unmatched = before.unwrap_or_else(|| state.clone());
                    exits.push((Worlds::at(Stage::Live, unmatched), uncertain(doubt)));
                }
                Step::Anything => {
                    exits.push((Worlds::at(Stage::Live, state.clone()), uncertain(Doubt::Undecided)));
                    exits.push((Worlds::end(End::Dropped(at.site)), uncertain(Doubt::Undecided)));
                    regs = Registers::new();
                }
                Step::Done(worlds) => {
                    result = Some(worlds);
                    break;
                }
                Step::Fork { to, ways, nothing, doubt } => {
                    let uncertain = uncertain(doubt.unwrap_or(Doubt::Undecided));
                    let mut worlds = nothing.then(|| Worlds::at(Stage::Live, state.clone()));
                    for way in ways {
                        let one = self.way(at, exprs, number, (to, way), regs.clone(), &state);
                        worlds = Some(match worlds {
                            Some(worlds) => worlds.split(&one, uncertain),
                            None => one,
                        });
                    }
                    result = Some(worlds.unwrap_or_else(|| Worlds::at(Stage::Live, state.clone())));
                    break;
                }
            }
        }
        let worlds = result.unwrap_or_else(|| Worlds::at(Stage::Live, state));
        Some(exits.into_iter().rev().fold(worlds, |worlds, (exit, uncertain)| worlds.split(&exit, uncertain)))
    }

    /// The rest of the rule with one value of a map.
    fn way(
        &mut self,
        at: At<'a>,
        exprs: &'a [Expr],
        number: usize,
        (to, way): (Dest, &Data),
        mut regs: Registers,
        state: &State,
    ) -> Worlds {
        match (to, way) {
            (_, Data::Verdict(verdict)) => self.verdict(at, number, verdict, state),
            (Dest::Data(reg), Data::Value(bytes)) => {
                regs.store(reg, &super::bits::known_bytes(bytes));
                let rest = self.exprs(at, exprs, number + 1, regs, state.clone());
                rest.unwrap_or_else(|| Worlds::at(Stage::Live, state.clone()))
            }
            (Dest::Verdict, Data::Value(_)) => self.give_up(at.site),
        }
    }

    /// `lookup`.
    pub(super) fn lookup(&mut self, at: At<'a>, set: &str, key: Reg, dest: Option<Dest>, inverted: bool, regs: &mut Registers) -> Step<'a> {
        let follower = self.follower;
        let Some(index) = follower.set(at.site.table, set) else { return Step::Done(self.give_up(at.site)) };
        let bounded = regs.bounded.filter(|bounded| bounded.reg == key);
        let hits = index.hits(regs.load(key, index.key_len()), bounded);
        let Some(to) = dest else { return Step::Go(hits.found().inverted(inverted)) };
        let mut ways: Vec<&'a Data> = Vec::new();
        for data in hits.elements.iter().filter_map(|(element, _)| element.data.as_ref()) {
            if !ways.contains(&data) {
                ways.push(data);
            }
        }
        match (to, ways.first()) {
            _ if ways.len() <= WAYS => Step::Fork { to, ways, nothing: hits.nothing, doubt: hits.doubt },
            (Dest::Data(reg), Some(Data::Value(bytes))) => {
                let doubt = hits.doubt.unwrap_or(Doubt::Undecided);
                regs.store(reg, &super::bits::unknown_bytes(bytes.len(), doubt));
                Step::Go(hits.found())
            }
            _ => Step::Done(self.give_up(at.site)),
        }
    }

    /// A verdict.
    pub(super) fn verdict(&mut self, at: At<'a>, number: usize, verdict: &Verdict, state: &State) -> Worlds {
        let stand = |stage| Worlds::at(stage, state.clone());
        match verdict {
            Verdict::Accept => stand(Stage::Accepted),
            Verdict::Drop => Worlds::end(End::Dropped(at.site)),
            Verdict::Continue => stand(Stage::Live),
            Verdict::Return => stand(Stage::Returned),
            Verdict::Jump(chain) => self.jump(at, chain, false, state),
            Verdict::Goto(chain) => self.jump(at, chain, true, state),
            // A program decides.
            Verdict::Queue | Verdict::Other(_) => {
                Self::either(at.site, number, stand(Stage::Accepted), &Worlds::end(End::Dropped(at.site)))
            }
        }
    }
}
