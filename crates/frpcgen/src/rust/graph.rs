//! Finds circles in a graph of any depth, without recursion.

/// For each node, whether it can reach itself. Uses Kosaraju's two passes.
pub fn on_circles(uses: &[Vec<usize>]) -> Vec<bool> {
    let mut used_by = vec![Vec::new(); uses.len()];
    for (user, used) in uses.iter().enumerate() {
        used.iter().for_each(|used| used_by[*used].push(user));
    }
    let mut result = vec![false; uses.len()];
    let mut assigned = vec![false; uses.len()];
    for start in finishing_order(uses).into_iter().rev() {
        if std::mem::replace(&mut assigned[start], true) {
            continue;
        }
        let (mut members, mut open) = (vec![start], vec![start]);
        while let Some(node) = open.pop() {
            for user in &used_by[node] {
                if !std::mem::replace(&mut assigned[*user], true) {
                    members.push(*user);
                    open.push(*user);
                }
            }
        }
        if members.len() > 1 || uses[start].contains(&start) {
            members.into_iter().for_each(|member| result[member] = true);
        }
    }
    result
}

/// Orders the nodes such that each comes after all nodes that it reaches, except within circles.
fn finishing_order(uses: &[Vec<usize>]) -> Vec<usize> {
    let mut order = Vec::new();
    let mut seen = vec![false; uses.len()];
    for start in 0..uses.len() {
        if std::mem::replace(&mut seen[start], true) {
            continue;
        }
        let mut path = vec![(start, 0)];
        while let Some((node, next)) = path.last_mut() {
            if let Some(used) = uses[*node].get(*next) {
                *next += 1;
                if !std::mem::replace(&mut seen[*used], true) {
                    path.push((*used, 0));
                }
            } else {
                order.push(*node);
                path.pop();
            }
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::on_circles;

    #[test]
    fn nodes_on_circles_are_told_from_those_beside_them() {
        // 0 → 1 ⇄ 2 → 3, and 4 → 4
        let uses = [vec![1], vec![2], vec![1, 3], vec![], vec![4]];
        assert_eq!(on_circles(&uses), [false, true, true, false, true]);
    }
}
