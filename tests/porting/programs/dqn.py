"""Deep Q-learning of a way along a corridor, with a memory and a target network."""

import collections
import random

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

LENGTH = 6


class Corridor(object):
    def reset(self):
        self.place, self.time = 0, 0
        return self._state()

    def _state(self):
        return np.eye(LENGTH, dtype=np.float32)[self.place]

    def step(self, action):
        self.time += 1
        self.place = min(max(self.place + (1 if action == 1 else -1), 0), LENGTH - 1)
        done = self.place == LENGTH - 1 or self.time == 30
        return self._state(), 1.0 if self.place == LENGTH - 1 else -0.05, done


class DQN(object):
    def __init__(self, learning_rate=0.01, gamma=0.9):
        self.gamma = gamma
        self.replay_buffer = collections.deque(maxlen=500)
        self.epsilon = 1.0
        self.state_input = tf.placeholder("float", [None, LENGTH])
        self.action_input = tf.placeholder("float", [None, 2])
        self.y_input = tf.placeholder("float", [None])
        self.Q_value = self.create_network("current")
        self.target_Q = self.create_network("target")
        Q_action = tf.reduce_sum(tf.multiply(self.Q_value, self.action_input), reduction_indices=1)
        self.cost = tf.reduce_mean(tf.square(self.y_input - Q_action))
        self.optimizer = tf.train.AdamOptimizer(learning_rate).minimize(self.cost)
        current = tf.get_collection(tf.GraphKeys.GLOBAL_VARIABLES, scope="current")
        target = tf.get_collection(tf.GraphKeys.GLOBAL_VARIABLES, scope="target")
        self.update = [tf.assign(t, c) for t, c in zip(target, current)]
        self.session = tf.InteractiveSession()
        self.session.run(tf.global_variables_initializer())

    def create_network(self, scope):
        with tf.variable_scope(scope):
            w1 = tf.get_variable("w1", [LENGTH, 16], initializer=tf.truncated_normal_initializer(stddev=0.3, seed=1))
            b1 = tf.get_variable("b1", [16], initializer=tf.zeros_initializer())
            w2 = tf.get_variable("w2", [16, 2], initializer=tf.truncated_normal_initializer(stddev=0.3, seed=2))
            return tf.matmul(tf.nn.relu(tf.matmul(self.state_input, w1) + b1), w2)

    def egreedy_action(self, state):
        self.epsilon = max(0.05, self.epsilon * 0.995)
        if random.random() <= self.epsilon:
            return random.randint(0, 1)
        return self.action(state)

    def action(self, state):
        return np.argmax(self.session.run(self.Q_value, feed_dict={self.state_input: [state]})[0])

    def perceive(self, *experience):
        self.replay_buffer.append(experience)
        if len(self.replay_buffer) > 32:
            self.train_Q_network()

    def train_Q_network(self):
        minibatch = random.sample(self.replay_buffer, 32)
        states, actions, rewards, next_states, dones = map(np.array, zip(*minibatch))
        Q_next = self.session.run(self.target_Q, feed_dict={self.state_input: next_states})
        y_batch = rewards + self.gamma * np.max(Q_next, 1) * (1.0 - dones)
        self.session.run(
            self.optimizer,
            feed_dict={self.y_input: y_batch, self.action_input: np.eye(2)[actions], self.state_input: states},
        )

    def update_target(self):
        self.session.run(self.update)


def play(env, choose):
    state, done, total = env.reset(), False, 0.0
    while not done:
        state, reward, done = env.step(choose(state))
        total += reward
    return total


def main():
    random.seed(0)
    env = Corridor()
    agent = DQN()
    before = play(env, lambda state: 0)
    for episode in range(40):
        state, done = env.reset(), False
        while not done:
            action = agent.egreedy_action(state)
            next_state, reward, done = env.step(action)
            agent.perceive(state, action, reward, next_state, done)
            state = next_state
        if episode % 3 == 0:
            agent.update_target()
    state, done, after = env.reset(), False, 0.0
    while not done:
        state, reward, done = env.step(agent.action(state))
        after += reward
    print("reward %.4f -> %.4f" % (before, after))


if __name__ == "__main__":
    main()
