"""The game "Keep the shop fast": orders stream into a simulated table, and the player compacts it."""
