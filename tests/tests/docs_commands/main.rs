//! Every command of the documentation: run in a node with real Envoy, a live agent and Cilium's maps, or given to the parser of
//! the tool that it calls where that tool needs a cluster, or listed with the reason why neither can be done here.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod blocks;
mod place;
mod rules;

use std::fmt::Write;
use std::path::Path;

use blocks::{Kind, read_all};
use place::Place;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

#[test]
fn every_command_of_the_documentation_does_what_it_says() {
    let pages = read_all(root()).unwrap();
    assert!(pages.len() > 60 && pages.iter().map(|page| page.steps.len()).sum::<usize>() > 250, "the blocks are found");
    let mut place = Place::make().unwrap();
    let mut faults = String::new();
    let mut used = vec![false; rules::EXCEPTIONS.len()];
    for page in &pages {
        place.begin_page(&page.name).unwrap();
        for step in &page.steps {
            let exception = rules::EXCEPTIONS.iter().position(|exception| step.text.contains(exception.part));
            let outcome = match (exception, step.kind) {
                (Some(at), _) => {
                    used[at] = true;
                    Ok(())
                }
                (None, Kind::Setting) => place.set(&step.text),
                (None, Kind::Command) => place.run(step),
            };
            if let Err(error) = outcome {
                let _ =
                    writeln!(faults, "{}:{}: {}\n    {}", page.name, step.line, step.text, format!("{error:#}").replace('\n', "\n    "));
            }
        }
        place.end_page().unwrap();
    }
    for (exception, _) in rules::EXCEPTIONS.iter().zip(&used).filter(|(_, used)| !**used) {
        let _ = writeln!(faults, "no command has {:?} any more: take the exception out", exception.part);
    }
    for rule in rules::EXPECTED.iter().filter(|rule| !place.was_expected(rule.part)) {
        let _ = writeln!(faults, "no command has {:?} any more: take the expectation out", rule.part);
    }
    assert!(faults.is_empty(), "\n{faults}");
}

#[test]
fn no_command_hides_in_a_block_without_a_language() {
    let mut found = String::new();
    for (name, line, text) in blocks::lines_without_language(root()).unwrap() {
        let first = text.split_whitespace().next().unwrap_or_default();
        if rules::PROGRAMS.contains(&first) || text.starts_with("$ ") {
            let _ = writeln!(found, "{name}:{line}: {text}");
        }
    }
    assert!(found.is_empty(), "say ```sh or ```console:\n{found}");
}

#[test]
fn no_link_of_the_documentation_is_dead() {
    let mut dead = String::new();
    for (name, text) in blocks::files(root()).unwrap() {
        let folder = root().join(&name);
        for rest in text.split("](").skip(1) {
            let target = rest.split([')', '#']).next().unwrap_or_default();
            if !target.is_empty() && !target.contains("://") && !folder.parent().unwrap().join(target).exists() {
                let _ = writeln!(dead, "{name}: {target}");
            }
        }
    }
    assert!(dead.is_empty(), "\n{dead}");
}
